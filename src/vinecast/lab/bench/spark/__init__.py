"""The benchmark of the pipeline, next to DuckDB."""

"""The data pipeline on Spark: from raw files to tables, sweeps of simulations, metrics and reports.

Every stage is a transform from frames to frames with a thin job around it, which reads from a *lake* (a
folder of Parquet tables) and publishes to it. Local mode is the default; a cluster is a ``--master`` away.
"""

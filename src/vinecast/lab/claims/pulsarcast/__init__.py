"""The claims of S3."""

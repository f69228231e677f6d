"""Flooding: every node passes every event on to all of its links (a baseline, S3 §5)."""

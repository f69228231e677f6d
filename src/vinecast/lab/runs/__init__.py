"""Runs that are done side by side or on Spark, and kept: for claims, and for the campaign."""

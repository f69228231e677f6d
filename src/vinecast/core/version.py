"""The version of this package: the one place that says it."""

VERSION = "0.1.0"

"""Measures: metrics of runs, by one definition each, and figures of them."""

"""Benchmarks: speed and memory, next to our targets and to what a user would pick instead."""

"""Cyclon: a stream of random peers, and nothing else."""

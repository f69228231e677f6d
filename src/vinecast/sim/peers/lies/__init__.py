"""Lies: what a hostile node can say, hold back, and make of what others say."""

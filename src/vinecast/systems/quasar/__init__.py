"""Quasar: routing by Bloom filters of what is near, without any structure (S1)."""

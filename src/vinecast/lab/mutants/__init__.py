"""Mutants: small, named changes that break a promise, and what notices them."""

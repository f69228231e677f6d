"""Scribe: multicast trees over Pastry (S0 §6, a baseline)."""

"""The claims of S4."""

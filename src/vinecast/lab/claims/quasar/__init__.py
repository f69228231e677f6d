"""The claims of S1."""

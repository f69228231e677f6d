"""The claims of S2 ch. 4."""

"""The claims of S2 ch. 3."""

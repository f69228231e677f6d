"""Vitis: clusters of nodes with the same topics, joined by relay paths (S2 ch. 3)."""

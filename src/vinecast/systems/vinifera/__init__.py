"""Vinifera: content filters, routed by the network itself (S2 ch. 4)."""

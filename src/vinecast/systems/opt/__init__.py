"""OPT: one link covers as many topics as possible (S2 §3.6, a baseline of Vitis)."""

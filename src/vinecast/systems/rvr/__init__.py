"""RVR: rendezvous routing over a small world (S2 §3.6, a baseline of Vitis)."""

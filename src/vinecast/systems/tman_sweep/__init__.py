"""The sweep of the systems on T-Man: Vitis, RVR and OPT."""

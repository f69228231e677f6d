"""Whole peers, simulated as they ship, with links, disks, clocks and processes: all that can befall them."""

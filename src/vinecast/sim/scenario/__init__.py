"""Scenarios: what is simulated, the world that is made of it, runs, faults, and what is noted of them."""

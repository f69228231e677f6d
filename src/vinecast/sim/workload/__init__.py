"""Workloads: who subscribes to what, who publishes what and when, and who is on line."""

"""GRID: a service that finds peers that are regularly on line, and an application of it (S4)."""

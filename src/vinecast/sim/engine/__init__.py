"""The engines: events in the order of simulated time, or whole cycles of a sweep; the network between
nodes."""

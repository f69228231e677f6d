"""PolderCast: a ring for every topic, no relays (S0)."""

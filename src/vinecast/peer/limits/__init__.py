"""Limits on what peers may do: misbehaviour, rates, replayed events."""

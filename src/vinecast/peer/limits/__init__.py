"""Limits on what peers may do: misbehaviour, rates, replays."""

"""Durable streams over any system that carries events."""

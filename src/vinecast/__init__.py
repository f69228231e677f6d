"""Vinecast: peer-to-peer publish/subscribe with topics, content filters and durable streams, no broker."""

__version__ = "0.1.0"

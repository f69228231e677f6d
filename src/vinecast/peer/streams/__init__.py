"""Durable streams of a node: their runtime, messages, replicas and cursors."""

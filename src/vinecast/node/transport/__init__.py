"""Connections between nodes: TCP and TLS 1.3, sessions, queues."""

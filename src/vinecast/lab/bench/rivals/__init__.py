"""Vinecast as it ships, beside what its users would pick instead: brokers and other networks of peers."""

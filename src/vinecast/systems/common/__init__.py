"""What several systems share: base machines, notices, anycast, the memory of recent events."""

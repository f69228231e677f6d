"""What a node keeps on disk: its identity, its memory, its streams."""

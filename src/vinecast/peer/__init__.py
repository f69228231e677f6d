"""The node without I/O: what it knows, says, decides and refuses. No socket, disk, clock, loop or entropy."""

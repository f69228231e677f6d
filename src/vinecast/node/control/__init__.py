"""The control socket: how programs on the same machine use a running node."""

"""Content on a node: names of filters, requests of others, and their index."""

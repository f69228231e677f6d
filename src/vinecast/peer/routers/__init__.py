"""Routers: the systems as a node runs them."""

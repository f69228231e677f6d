"""The peer table: whom a node knows, by number, and the numbers of topics."""

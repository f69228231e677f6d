"""PolderCast with rings of regular nodes beside its own (S4 ch. 6)."""

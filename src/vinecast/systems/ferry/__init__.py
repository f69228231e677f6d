"""Ferry*: one rendezvous node an attribute (S2 §4.6, a baseline of Vinifera)."""

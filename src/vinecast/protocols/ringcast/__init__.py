"""Dissemination over a ring and a few shortcuts (S0 §4.2, after RingCast).

On first receipt a node forwards an event f times: to the ring neighbour on the other side and f − 1 random
subscribers if it came along the ring, else to both neighbours and f − 2. Later copies are dropped.
A ring neighbour that cannot be reached is replaced by the one behind it (S0 §5.1, §6.6).
"""

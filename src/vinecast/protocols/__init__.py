"""One mechanism each: rules (decisions over arrays), a machine (one node), and, for the hot ones, a sweep
(all nodes at once). Pure code; protocols do not know each other, the systems wire them.
"""

"""Cyclon: a stream of uniformly random peers for every node (S0 §5.3–5.4, S4 §2.4.1).

The worked example of the house. Read ``rules`` (the decisions), then ``machine`` (one node), then ``sweep``
(a population), and every other protocol will look familiar.

S0 §5.4 says of all layers that a partner that answers is "inserted anew"; Cyclon's own paper, to which S0
§5.3 and S4 §2.4.1 refer for the details, lets the partner's link be replaced by the answer instead. We
follow the latter: it is what keeps the number of links that point to a node constant.
"""

from vinecast.protocols.cyclon.machine import Cyclon, CyclonAnswer, CyclonConfig, CyclonRequest

__all__ = ["Cyclon", "CyclonAnswer", "CyclonConfig", "CyclonRequest"]

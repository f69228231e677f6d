"""Content routing tables: what filters leave behind on their way to the owners of their range (S2 §4.3).

A subscriber asks for what its filter matches, along one attribute, of the nodes that own the filter's range
of it. Everybody on the way writes down who asked for which filter, within which part of the range, and asks
in turn. An event goes the other way: from the owner of its value to those who asked for a filter that matches
it, and so on down to subscribers.

Requests are aggregated: a node asks once a cycle for a filter and a part of its range, whoever wants it, and
not at all for what a wider filter that it has asked for covers. They are repeated every cycle; what nobody
repeats is forgotten.
"""

from vinecast.protocols.content_table.machine import ContentRequest, ContentTable, WantedRange

__all__ = ["ContentRequest", "ContentTable", "WantedRange"]

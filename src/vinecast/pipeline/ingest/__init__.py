"""Ingest: raw text becomes validated tables; what cannot be taken is set aside with its reason, never lost.

A file is cut into splits of whole lines (``splits``). One task a split turns its lines into rows by the
definitions that the simulator has too (``lines``, ``kinds``), writes them into a staging folder and returns
one row of counts (``stage``). The tables are made from the staged rows (``frames``; edges, of which there are
many, in ``graph``), and the job publishes them, with the quarantine of bad lines beside them (``job``).
"""

"""The papers' claims as executable checks: a module or a folder a source, an entry a claim (registry)."""

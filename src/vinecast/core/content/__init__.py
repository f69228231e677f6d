"""Content: schemas of events, filters over them, their text forms, and the index of many filters."""

"""The campaign: random networks of whole peers under faults and lies, and what was promised, checked."""

"""Between what machines say, with numbers for peers, and what travels: cards, statuses, messages."""

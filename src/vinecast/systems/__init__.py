"""Systems: a folder each, wiring protocols; ``registry`` lists their rows by name, ``common`` is what they
share."""

"""What tests of systems share: trials of any system, and nodes of some that stand alone."""

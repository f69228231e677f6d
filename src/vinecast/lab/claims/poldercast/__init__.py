"""The claims of S0 about PolderCast."""

"""What drives a peer: the loop, the clock, timers, bootstrap, configuration."""

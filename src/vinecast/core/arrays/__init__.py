"""What a node knows as small arrays: sets of bits, filters of bits, indexes, profiles, places on rings,
suspicion."""

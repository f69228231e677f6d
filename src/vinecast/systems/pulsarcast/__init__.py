"""PulsarCast: a multicast tree for every topic over Kademlia (S3)."""

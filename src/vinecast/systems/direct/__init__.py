"""Direct sending: the publisher sends each event to every subscriber (a baseline, S3 §5)."""

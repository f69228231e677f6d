"""The wire format: frames, handshake, messages, and the codecs between numbers and names."""

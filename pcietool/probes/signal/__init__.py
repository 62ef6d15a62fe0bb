"""signal-latency."""

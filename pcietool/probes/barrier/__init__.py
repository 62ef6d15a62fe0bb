"""barrier-latency."""

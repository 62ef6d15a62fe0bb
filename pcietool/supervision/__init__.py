"""What may hang runs in a child process; this side outlives it."""

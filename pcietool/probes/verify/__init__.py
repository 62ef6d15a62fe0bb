"""verify: each protocol alone, byte by byte, and the mutants that prove its checks."""

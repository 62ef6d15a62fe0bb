"""All executions of small kernels, and what may be missing."""

"""Kernels with more or less order than they have: which of it they need, and which they lack."""

"""Litmus tests as text, and as CUDA C++."""

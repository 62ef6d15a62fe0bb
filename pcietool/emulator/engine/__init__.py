"""Threads, memory accesses, barriers and launches in virtual time."""

"""The tenant of `machines.base.Machine` without GPUs."""

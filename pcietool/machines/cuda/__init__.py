"""The real-GPU tenant of `machines.base.Machine`, on cuda.bindings.

Must stay empty: importing the package must not import CUDA, so that its pure parts work anywhere.
"""

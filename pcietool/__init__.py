"""pcietool measures and verifies cross-GPU synchronisation on multi-GPU machines."""

__version__ = "0.1.0"

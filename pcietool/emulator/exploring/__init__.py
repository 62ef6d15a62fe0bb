"""Every execution that PTX allows of small kernels."""

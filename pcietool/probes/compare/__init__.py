"""compare-nccl."""

"""atomic-loss."""

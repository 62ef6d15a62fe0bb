"""Memory orders: what each access reads and leaves behind."""

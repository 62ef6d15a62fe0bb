"""What copies memory beside the threads: bulk copies and cp.async. Must not know what orders them."""

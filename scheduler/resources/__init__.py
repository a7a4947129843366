"""CPU cores and memory: how much belongs to a GPU, and how people write it."""

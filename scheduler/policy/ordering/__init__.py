"""Which waiting job is considered next, and which limits it has to pass."""

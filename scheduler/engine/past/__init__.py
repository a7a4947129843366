"""The pool's own past: as a scenario, and what would have been if the pool had been another."""

"""What jobs ask for besides GPUs, compared with what comes with these (docs/decisions/0015, 0019)."""

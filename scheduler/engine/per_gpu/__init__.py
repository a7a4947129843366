"""Cores and memory that jobs ask for, compared with what comes with GPUs (docs/decisions/0015)."""

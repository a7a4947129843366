"""Which GPUs a gang gets."""

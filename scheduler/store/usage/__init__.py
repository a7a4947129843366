"""Measured use of GPUs: records, down-sampling, and what is written of them."""

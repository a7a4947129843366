"""Measured use of GPUs: sampling, attribution to holders, and answers."""

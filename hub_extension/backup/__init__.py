"""Copies of a pool's state in one file, and the way back."""

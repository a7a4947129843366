"""Sweeps: which trials are begun, how they are counted, and what users may ask of a sweep."""

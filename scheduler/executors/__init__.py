"""Executors: what runs attempts, on one machine or on a cluster."""

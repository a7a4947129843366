"""Sweeps: what a sweep of trials is asked for, and what is told of it."""

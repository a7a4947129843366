"""Test runs: what a job tells of its own."""

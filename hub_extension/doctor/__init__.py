"""Checks of a set-up, each with remedies for its findings."""

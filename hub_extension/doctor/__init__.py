"""Checks of a set-up, each with what to do about what it finds."""

"""Backup of a pool's state in one file, and its restore."""

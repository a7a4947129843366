"""Committed state, transactions on it, and the life cycle of a job."""

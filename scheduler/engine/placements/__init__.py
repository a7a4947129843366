"""Speeds of jobs by placement, and the advice from them for other jobs."""

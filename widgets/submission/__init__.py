"""Submission of jobs from notebooks: capture, options and sweeps."""

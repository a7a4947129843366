"""The views of jobs and the pool in a notebook."""

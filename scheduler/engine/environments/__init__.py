"""The environment of jobs: what they run with."""

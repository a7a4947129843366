"""The environment of a job: what it runs with."""

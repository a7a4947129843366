"""The files of a job, for all executors: their layout, and how they are written and read."""

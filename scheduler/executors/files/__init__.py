"""What is on disk of a job, wherever it runs: where it lies, and how it is written and read."""

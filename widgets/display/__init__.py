"""What a notebook shows of jobs and the pool."""

"""TensorBoard of jobs: a program of the notebook server's user, with copies of what the pool has of them."""

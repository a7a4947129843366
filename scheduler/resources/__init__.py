"""CPU cores, memory and RDMA: how much belongs to a GPU, and how people write it."""

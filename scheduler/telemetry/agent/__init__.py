"""The agent that runs on each node of a cluster, and tells the pool's service of the node's GPUs."""

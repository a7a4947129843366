"""The agent that runs on each node of a cluster, and reports the node's GPUs to the pool's service."""

"""How many nodes the cluster is asked for, and for which jobs."""

"""Groups of nodes that the cluster adds when a pod waits for one, and the pods that wait."""

"""Settings and parts that exist only on a Kubernetes cluster."""

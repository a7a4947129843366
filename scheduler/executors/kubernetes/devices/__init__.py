"""GPUs that a driver for dynamic resource allocation (DRA) publishes, and the claims of them."""

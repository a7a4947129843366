"""API objects of the executor: their names and labels, the manifests it writes, and the fields it reads."""

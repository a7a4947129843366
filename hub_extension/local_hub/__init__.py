"""Parts of `springtide up`, which runs a JupyterHub on one machine."""

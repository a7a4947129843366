"""Datasets that an administrator declares: directories that jobs and workspaces read."""

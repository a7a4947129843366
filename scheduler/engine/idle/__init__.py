"""Idle workspaces: build GPUs that are held and not used are reported to their owner, and then released."""

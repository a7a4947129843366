"""Calls about idle workspaces."""

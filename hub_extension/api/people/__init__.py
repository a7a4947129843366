"""Calls of people about themselves: who they are, their default project, their notifications."""

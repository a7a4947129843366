"""Notifications of jobs, faults and workspaces, and the outbox of their deliveries."""

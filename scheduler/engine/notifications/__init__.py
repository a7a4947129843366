"""Notifications: what is told of a job, and the deliveries that wait."""

"""Notifications on their way out of the pool: e-mail and webhooks."""

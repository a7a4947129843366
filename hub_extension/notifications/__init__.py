"""The delivery of notifications outside of the pool's pages: e-mail and webhooks."""

"""The channels by which notifications reach people: open pages, e-mail and webhooks."""

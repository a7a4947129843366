"""Runs the migrations on the connection that `springtide.scheduler.store.opening` hands over."""

from __future__ import annotations

from alembic import context

from springtide.scheduler.store.schema import metadata

context.configure(connection=context.config.attributes["connection"], target_metadata=metadata)
with context.begin_transaction():
    context.run_migrations()

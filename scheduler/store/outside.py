"""Reads a store from outside, also while a service owns it: neither its lock nor its epoch is touched."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import Connection

from springtide.scheduler.store import opening
from springtide.scheduler.store.errors import StoreError
from springtide.scheduler.store.queries import reading
from springtide.scheduler.store.records import DecisionRecord


def read_decision(url: str, decision: int | None) -> list[DecisionRecord]:
    """Return a decision, the newest if None, after all that it builds on: its base first, itself last.

    Raises `StoreError` when there is no store of this
    version's schema, or no such decision in it.
    """
    with _reading(url) as connection:
        ids = reading.decision_ids(connection)
        if ids is None:
            raise StoreError(
                "There is no decision in the store yet: a pool makes its first one for its first job."
            )
        oldest, newest = ids
        wanted = newest if decision is None else decision
        found = reading.decisions(connection, wanted, wanted)
        if not found:
            raise StoreError(
                f"There is no decision {wanted} in the store, which has those from {oldest} to {newest}."
            )
        return reading.decisions(connection, found[0].base, wanted)


def read_withheld(url: str) -> Counter[str]:
    """Return the words because of which jobs are withheld, with the numbers of these jobs.

    Raises `StoreError` when there is no store of this version's schema.
    """
    with _reading(url) as connection:
        return Counter(each.detail for each in reading.withheld(connection))


def read_left_jobs(url: str) -> Counter[str]:
    """Return the numbers of unfinished jobs of people who are no longer users of JupyterHub, by name.

    Raises `StoreError` when there is no store of this version's schema.
    """
    with _reading(url) as connection:
        return Counter(reading.owners_who_left(connection))


@contextmanager
def _reading(url: str) -> Iterator[Connection]:
    parsed = opening.parse_url(url)
    if parsed.get_backend_name() == "sqlite" and not Path(str(parsed.database)).is_file():
        raise StoreError(f"There is no store {parsed.database}: name the state directory of the pool.")
    writer, reader = opening.connect(parsed)
    try:
        opening.check_schema(reader)
        with opening.translated(reader.url), reader.connect() as connection:
            yield connection
    finally:
        reader.dispose()
        writer.dispose()

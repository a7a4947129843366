"""Empty stores for tests that are not about migrations, which run once in each process of tests.

All stores of the process share compiled statements.
"""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

from stores.shared_statements import share

from springtide.scheduler.store import Store, opening

NAME = "springtide.sqlite"

share()


def sqlite_url(state: Path) -> str:
    """Return the URL of the SQLite store in a state directory; if there is none, write an empty one."""
    file = state / NAME
    if not file.exists():
        state.mkdir(parents=True, exist_ok=True)
        file.write_bytes(_empty())
    return f"sqlite:///{file}"


def open_store(state: Path) -> Store:
    """Open the SQLite store of a state directory, which may be new."""
    return Store.open(sqlite_url(state), state)


@cache
def _empty() -> bytes:
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / NAME
        writer, reader = opening.connect(opening.parse_url(f"sqlite:///{file}"))
        opening.migrate(writer)
        writer.dispose()
        reader.dispose()
        return file.read_bytes()

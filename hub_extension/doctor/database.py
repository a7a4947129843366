"""Checks of a store in a database server."""

from __future__ import annotations

from collections.abc import Iterator

from springtide.hub_extension.doctor.findings import Finding, ok, problem
from springtide.scheduler.store import StoreError, StoreTooNewError
from springtide.scheduler.store.opening import check_schema, connect, parse_url


def check(url: str) -> Iterator[Finding]:
    """Check that the server answers, and that the schema is this version's."""
    parsed = parse_url(url)
    shown = parsed.render_as_string(hide_password=True)
    try:
        writer, reader = connect(parsed)
    except ModuleNotFoundError as error:
        yield problem("store", f"{error.name} is not installed.", "pip install 'springtide[hub,postgres]'")
        return
    try:
        check_schema(reader)
    except StoreTooNewError as error:
        yield problem("store", str(error), "pip install the newer version, or restore an older dump")
    except StoreError as error:
        yield problem("store", str(error), "Check address, account and rights; then start the service once.")
    else:
        yield ok("store", f"{shown} answers, with the schema of this version.")
    finally:
        reader.dispose()
        writer.dispose()

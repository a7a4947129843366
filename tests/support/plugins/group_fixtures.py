"""A plugin of pytest: what only tests of groups use ends with each of these groups, not with the whole run.

A cluster, a hub or a notebook server would otherwise take processor time until the last test of all has ended, and
a browser would keep tests with an event loop from running.
"""

from __future__ import annotations

import inspect
from collections.abc import Generator, Sequence
from typing import Any

import pytest

_ENDING = pytest.StashKey[dict[str, list[pytest.FixtureDef[Any]]]]()


def group_of(item: pytest.Item) -> str | None:
    """Return the name of the group of tests that run on one worker, of which the test is one."""
    marker = item.get_closest_marker("xdist_group")
    return None if marker is None else str(marker.args[0])


def pytest_collection_finish(session: pytest.Session) -> None:
    """Find what ends with which group."""
    session.config.stash[_ENDING] = _fixtures_of_groups(session.items)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None]:
    """After the last test of a group, end the fixtures of the group."""
    yield
    group = group_of(item)
    if group is not None and nextitem is not None and group_of(nextitem) != group:
        for definition in item.config.stash[_ENDING].get(group, ()):
            definition.finish(item._request)  # type: ignore[attr-defined]


def _fixtures_of_groups(items: Sequence[pytest.Item]) -> dict[str, list[pytest.FixtureDef[Any]]]:
    """Return by group the fixtures of the whole run that are to be ended and that no test without group uses."""
    users: dict[pytest.FixtureDef[Any], set[str | None]] = {}
    for item in items:
        fixtures = getattr(item, "_fixtureinfo", None)
        for definitions in fixtures.name2fixturedefs.values() if fixtures is not None else ():
            for definition in definitions:
                if definition.scope == "session" and inspect.isgeneratorfunction(definition.func):
                    users.setdefault(definition, set()).add(group_of(item))
    ending: dict[str, list[pytest.FixtureDef[Any]]] = {}
    for definition, groups in users.items():
        for group in groups if None not in groups else ():
            ending.setdefault(str(group), []).append(definition)
    return ending

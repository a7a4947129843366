"""A plugin of pytest: whether a test has failed, for fixtures that only then keep what shows why."""

from __future__ import annotations

from collections.abc import Generator

import pytest

_FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remember that a test, or what it needs, has failed in this try."""
    report = yield
    item.stash[_FAILED] = report.failed or (call.when != "setup" and has_failed(item))
    return report


def has_failed(test: pytest.Item) -> bool:
    """Return whether the test has failed so far in this try; fixtures ask it after their ``yield``."""
    return test.stash.get(_FAILED, False)

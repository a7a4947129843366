"""A plugin of pytest: a failed test that waits for other programs is tried once more, and the summary says so.

Before the second try the fixtures of all scopes end, so that none that the first one broke is used again. What
then passes is printed as "passed on its second try" with its first error: a fault of the test or of the product
that is to be mended. Tests of functions are never tried again, nor are more than a few where many fail.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

WAITS = ("browser", "hub", "cluster", "database", "framework", "process")
"""Markers of tests that wait for other programs."""
LIMIT = 10
"""At most this many second tries in a run, on all its workers together."""

_CLAIMS = pytest.StashKey[Path]()
_IS_SECOND = pytest.StashKey[bool]()
_OUTCOME = "second try"
_WORKER_INPUT = "second_tries"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--no-second-try", action="store_true", help="fail a test at once that waits for programs")


def pytest_configure(config: pytest.Config) -> None:
    """Know the directory in which all workers of a run count their second tries."""
    given = getattr(config, "workerinput", {}).get(_WORKER_INPUT)
    config.stash[_CLAIMS] = Path(given or tempfile.mkdtemp(prefix="springtide-second-tries-"))


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        shutil.rmtree(config.stash[_CLAIMS], ignore_errors=True)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    node.workerinput[_WORKER_INPUT] = str(node.config.stash[_CLAIMS])


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Run a test that waits for programs; where it fails, end all fixtures and run it again in the usual way."""
    if item.stash.get(_IS_SECOND, False) or not _may_be_tried_twice(item):
        return None
    hook = item.ihook
    hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    reports = runtestprotocol(item, log=False, nextitem=nextitem)
    failures = [report for report in reports if report.failed]
    again = bool(failures) and not item.session.shouldstop and _claim(item.config.stash[_CLAIMS])
    if again:
        reports = [_first_try(failures, _errors_of_ends(item))]
    for report in reports:
        hook.pytest_runtest_logreport(report=report)
    hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    if again:
        item.stash[_IS_SECOND] = True
        hook.pytest_runtest_protocol(item=item, nextitem=nextitem)
    return True


def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    return (_OUTCOME, "2", "SECOND TRY") if report.outcome == _OUTCOME else None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print each test that passed on its second try, with its first error."""
    stats = terminalreporter.stats
    failed = {report.nodeid for category in ("failed", "error") for report in stats.get(category, ())}
    for report in stats.get(_OUTCOME, ()):
        if report.nodeid not in failed:
            terminalreporter.section(f"{report.nodeid} passed on its second try", sep="_", yellow=True)
            terminalreporter.write_line("Mend it: it failed on its first try.")
            terminalreporter.write_line(report.longreprtext)
            for title, content in report.sections:
                terminalreporter.section(title, sep="-")
                terminalreporter.write_line(content)


def _may_be_tried_twice(item: pytest.Item) -> bool:
    options = item.config.option
    wanted = not options.no_second_try and not options.usepdb
    return wanted and any(map(item.get_closest_marker, WAITS))


def _claim(claims: Path) -> bool:
    """Return whether one of the second tries of the run was left; it is then taken."""
    for number in range(LIMIT):
        try:
            (claims / str(number)).touch(exist_ok=False)
        except FileExistsError:
            continue
        return True
    return False


def _errors_of_ends(item: pytest.Item) -> list[str]:
    """End the fixtures of all scopes and return what failed in doing so."""
    state = item.session._setupstate
    ended = pytest.CallInfo.from_call(lambda: state.teardown_exact(None), "teardown")
    return [] if ended.excinfo is None else [str(ended.excinfo.getrepr())]


def _first_try(failures: list[pytest.TestReport], errors: list[str]) -> pytest.TestReport:
    """Return the report of a failed try: its first failure, and what failed after it."""
    first, *later = failures
    texts = [*(report.longreprtext for report in later), *errors]
    first.sections.extend(("Error while its fixtures ended", text) for text in texts)
    first.outcome = _OUTCOME  # type: ignore[assignment]
    return first

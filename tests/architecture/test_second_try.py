"""A test that waits for other programs is tried once more, with fresh fixtures, and the summary says so."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from plugins import second_try

FIXTURES = """
from pathlib import Path
import pytest

HERE = Path(__file__).parent

def count(name):
    with (HERE / name).open("a") as file:
        file.write("x")
    return len((HERE / name).read_text())

@pytest.fixture(scope="session")
def hub():
    number = count("hubs")
    yield number
    count("ended hubs")

@pytest.fixture(scope="module")
def people(hub):
    return count("people")
"""

PASSES_LATER = f"""{FIXTURES}
@pytest.mark.hub
def test_before(hub):
    assert hub == 1

@pytest.mark.hub
def test_waits(hub, people, tmp_path):
    assert not list(tmp_path.iterdir())
    (tmp_path / "used").touch()
    assert (hub, people) == (2, 2), f"only {{hub}} of the hubs"

def test_after(hub):
    assert hub == 2
"""

NEEDS_A_SECOND_HUB = f"""{FIXTURES}
@pytest.fixture(scope="session")
def server(hub):
    assert hub == 2, "no server"

@pytest.mark.hub
def test_asks(server):
    pass
"""

DOES_NOT_END = f"""{FIXTURES}
@pytest.fixture(scope="session")
def server():
    yield
    assert count("ends") == 2, "the server does not end"

@pytest.mark.hub
def test_asks(server, hub):
    assert hub == 2, "no answer"
"""

DOES_NOT_END_BEFORE_ANOTHER = f"""{DOES_NOT_END}
def test_another(server):
    pass
"""

FAILS = f"""{FIXTURES}
@pytest.mark.process
@pytest.mark.parametrize("number", range(20))
def test_fails(number, hub):
    count("tries")
    assert False, "always"
"""

PURE = f"""{FIXTURES}
def test_adds():
    assert count("tries") == 2
"""


def run_tests(directory: Path, text: str, *options: str) -> tuple[int, str]:
    """Return the exit status of tests with these options of pytest and the plugin, and what they print."""
    (directory / "test_it.py").write_text(text)
    markers = "\n".join(f"    {name}" for name in second_try.WAITS)
    (directory / "pytest.ini").write_text(f"[pytest]\nmarkers =\n{markers}\n")
    own = ["-p", "no:cacheprovider", "-p", "plugins.second_try"]
    command = [sys.executable, "-m", "pytest", "-q", *own, *options]
    support = Path(second_try.__file__).parents[1]
    alone = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(support), "COLUMNS": "115"}
    ran = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False, env=alone)
    return ran.returncode, ran.stdout + ran.stderr


@pytest.mark.parametrize("options", [(), ("-p", "xdist.plugin", "-n", "1")])
def test_a_second_try_has_fresh_fixtures_and_is_printed_with_the_first_error(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    status, printed = run_tests(tmp_path, PASSES_LATER, *options)
    assert status == 0, printed
    assert "3 passed, 1 second try" in printed
    assert "test_it.py::test_waits passed on its second try" in printed
    assert "only 1 of the hubs" in printed
    assert "test_before passed on its second" not in printed
    assert len((tmp_path / "ended hubs").read_text()) == 2


@pytest.mark.parametrize(
    ("text", "errors"),
    [
        (NEEDS_A_SECOND_HUB, ["no server"]),
        (DOES_NOT_END, ["no answer", "the server does not end"]),
        (DOES_NOT_END_BEFORE_ANOTHER, ["no answer", "the server does not end"]),
    ],
    ids=["sets-up", "ends", "ends-before-another"],
)
def test_a_fixture_that_fails_or_does_not_end_is_set_up_again(
    tmp_path: Path, text: str, errors: list[str]
) -> None:
    status, printed = run_tests(tmp_path, text)
    assert status == 0, printed
    assert "test_it.py::test_asks passed on its second try" in printed
    for error in errors:
        assert error in printed


def test_failures_that_repeat_stay_failures_and_only_ten_of_a_run_are_tried_twice(tmp_path: Path) -> None:
    status, printed = run_tests(tmp_path, FAILS, "-p", "xdist.plugin", "-n", "2")
    assert status == 1, printed
    assert "20 failed, 10 second try" in printed
    assert "passed on its second try" not in printed
    assert len((tmp_path / "tries").read_text()) == 20 + second_try.LIMIT


@pytest.mark.parametrize(
    ("text", "options"),
    [(PURE, ()), (PASSES_LATER, ("--no-second-try", "-k", "before or waits"))],
    ids=["of-functions", "said-so"],
)
def test_tests_of_functions_and_those_of_a_run_that_says_so_fail_at_once(
    tmp_path: Path, text: str, options: tuple[str, ...]
) -> None:
    status, printed = run_tests(tmp_path, text, *options)
    assert status == 1, printed
    assert "1 failed" in printed
    assert "second try" not in printed

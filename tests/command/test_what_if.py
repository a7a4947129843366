"""The past and what would have been from a terminal, against a real pool."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from programs.terminal import Run, called

pytestmark = pytest.mark.xdist_group("hub-command")


@pytest.fixture
def ran(run: Run) -> None:
    """A job of susan's that has held two GPUs."""
    done = run("submit", "--follow", "--gpus", "2", "--name", "short", "--", "sleep", "1")
    assert done.code == 0, done.err


@pytest.mark.usefixtures("ran")
def test_an_exported_past_is_a_scenario_that_can_be_simulated(run: Run, directory: Path) -> None:
    done = run("history", "export", "-o", "past.json", user="admin")
    assert done.code == 0, done.err
    assert done.out.startswith("past.json: ")
    assert "Jobs are submitted when they were" in done.err
    simulated = json.loads(called("simulate", str(directory / "past.json")).out)
    assert simulated["finished"] >= 1
    found = run("history", "export", "--anonymous", user="admin")
    assert "susan" not in found.out
    assert json.loads(found.out)["jobs"]
    assert run("history", "export", "-o", "past.json", "--json", user="admin").json["jobs"] >= 1


@pytest.mark.usefixtures("ran")
def test_another_pool_is_shown_beside_the_one_that_was(run: Run) -> None:
    done = run("what-if", "--last", "1h", "--nodes", "simulated=+1", "--order", "first-come", user="admin")
    assert done.code == 0, done.err
    assert "as it was → as it would have been" in done.out
    said = r"^The other pool: 1 node with \d+ simulated GPUs? more; order first-come\.$"
    assert re.search(said, done.out, re.MULTILINE)
    head = next(line for line in done.out.splitlines() if line.startswith("PROJECT"))
    assert head.split()[1:4] == ["WAIT", "50", "%"]
    assert "The record → the pool as it was, simulated:" in done.out
    assert sum(line.startswith("POOL ") for line in done.out.splitlines()) == 2
    found = run("what-if", "--last", "1h", "--quota", "susan=1", "--json", user="admin").json
    assert found["state"] == "done"
    assert found["question"]["changes"]["quota"] == {"susan": 1}


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["what-if", "--nodes", "a100"], 2, "“a100” is not like a100=+2, t4=-1 or h100=+2x8."),
        (["what-if", "--nodes", "h100=+1"], 1, "say how many GPUs each has"),
        (["what-if", "--quota", "vision"], 2, "“vision” is not like vision=12"),
        (["what-if", "--quota", "nobody=2"], 1, "The project “nobody” was not there in this time."),
        (["what-if", "--last", "soon"], 2, "“soon” is no duration such as"),
        (["what-if", "--last", "0s"], 2, "expected more than 0 s and at most 400 days, got 0 s"),
        (["what-if", "--last", "1h", "--from", "2026-01-01"], 2, "expected --last or --from, got both"),
    ],
)
@pytest.mark.usefixtures("ran")
def test_a_wrong_question_is_refused_with_what_was_expected(
    run: Run, words: list[str], code: int, message: str
) -> None:
    done = run(*words, user="admin")
    assert (done.code, message in " ".join(done.err.split())) == (code, True), done.err


def test_people_who_administer_nothing_are_refused(run: Run) -> None:
    for words in (["what-if"], ["history", "export"]):
        done = run(*words)
        assert (done.code, "Only administrators of the pool or of a project" in done.err) == (1, True), done.err

"""Requests from a terminal: asked for, listed, withdrawn, approved with other values and refused."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from programs.terminal import Run

pytestmark = pytest.mark.xdist_group("hub-command")

WHY = "The deadline is on Friday."


@pytest.fixture(autouse=True)
def nothing_pending(run: Run) -> Iterator[None]:
    """Leave no pending request behind, and the quota as it was."""
    before = next(each["quota"] for each in run("projects", "--json").json if each["name"] == "susan")
    yield
    for each in run("request", "list", "--json").json:
        run("request", "withdraw", str(each["number"]))
    run("set-project", "susan", "--quota", str(before), user="admin")


def made(run: Run, *words: str) -> str:
    """Make a request, and return its number."""
    done = run("request", *words, "--reason", WHY)
    assert done.code == 0, done.err
    return done.out.split()[1].rstrip(":")


def test_a_quota_is_asked_for_listed_and_granted_with_other_values(run: Run) -> None:
    number = made(run, "quota", "susan", "1", "--until", "2030-01-31 18:00")
    listed = run("request", "list").out
    assert all(
        word in listed for word in (number, "pending", "a quota of 1 GPU for “susan” until 2030-01-31", WHY)
    )
    assert "EXPIRES" in listed.splitlines()[0]
    much = made(run, "build", "999")
    table, said = run("request", "list").out.split(f"Request {much} cannot be granted as it is now: ")
    assert said.strip().endswith(".")
    assert said.strip() not in " ".join(table.split())
    run("request", "withdraw", much)
    need = run("needs", user="admin").out
    assert "The person “susan” asks for a quota of 1 GPU for “susan”" in need
    assert f"springtide request approve {number}" in need
    assert run("request", "approve", number).code == 1
    done = run("request", "approve", number, "--gpus", "0", "--reason", "All is booked.", user="admin")
    assert done.out == f"Request {number} is approved: a quota of 0 GPUs for “susan” until 2030-01-31 18:00 UTC.\n"
    assert next(each["quota"] for each in run("projects", "--json").json if each["name"] == "susan") == 0
    assert run("request", "list").out == "No pending requests; --all lists 2 that have ended.\n"
    everything = run("request", "list", "--all").out
    assert all(words in everything for words in ("approved", "Granted: a quota of 0 GPUs", "All is booked."))
    trail = run("audit", "--what", "request", user="admin").out
    assert all(what in trail for what in ("request.make", "request.approve"))


def test_a_request_is_refused_with_a_reason_and_another_is_withdrawn(run: Run) -> None:
    number = made(run, "build", "1")
    refused = run("request", "refuse", number, "--reason", "Not this week.", user="admin")
    assert refused.out == f"Request {number} is refused: a build quota of 1 GPU for “susan”.\n"
    assert "Not this week." in run("request", "list", "--all").out
    again = run("request", "approve", number, user="admin")
    assert (again.code, f"Request {number} is refused by “admin” already." in again.err) == (1, True)
    other = made(run, "quota", "susan", "--limit", "2")
    assert run("request", "withdraw", other).out == f"Request {other} is withdrawn.\n"
    assert run("request", "withdraw", other).code == 1


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["quota", "susan", "--reason", WHY],
            "Give a number of GPUs, such as 4 or a100=4, --limit or --build-quota.",
        ),
        (["quota", "susan", "many", "--reason", WHY], "is no number of GPUs"),
        (["quota", "susan", "4"], "Missing option '--reason'"),
        (["job", "x", "--reason", WHY], "Give --priority or --time-limit."),
        (["join", "nowhere", "--reason", WHY], "There is no project “nowhere”."),
        (["join", "susan", "--reason", WHY], "There is membership in “susan” for “susan” already."),
        (["approve", "9999", "--gpus", "2"], "There is no request 9999."),
        (["refuse", "0", "--reason", WHY], "0 is not in the range x>=1"),
    ],
)
def test_a_wrong_request_is_refused_with_what_is_expected(run: Run, words: list[str], message: str) -> None:
    done = run("request", *words)
    assert (done.code in {1, 2}, done.out, message in done.err) == (True, "", True), done.err

"""Holding, releasing and editing jobs from a terminal, against a real pool."""

from __future__ import annotations

import re
from datetime import datetime
from functools import partial

import click
import pytest
from hubs.hub_people import until
from programs.terminal import Run

from springtide.hub_extension.commands.interventions import Amount

pytestmark = pytest.mark.xdist_group("hub-command")
WHY = "Its data may not be used."


def sent(run: Run, *words: str) -> str:
    done = run("submit", *words, "--json", "--", "sleep", "600")
    assert done.code == 0, done.err
    return str(done.json["id"])


def state_of(run: Run, job: str) -> str:
    return str(run("show", job, "--json").json["state"])


def says(run: Run, command: str, job: str, words: str) -> bool:
    return words in run(command, job).out


def test_an_admin_holds_chosen_jobs_of_a_person_and_she_sees_who_and_why(run: Run) -> None:
    jobs = [sent(run, "--tag", "suspect") for _ in range(2)]
    other = sent(run)
    try:
        held = run("hold", "--user", "susan", "--tag", "suspect", "--reason", WHY, user="admin")
        assert held.code == 0, held.err
        for command in ("show", "explain"):
            until(f"{command} says it", partial(says, run, command, jobs[0], f"by “admin”: {WHY}"))
        until("the list says it", lambda: "Put on hold by “admin”." in run("jobs", "--mine").out)
        refused = run("release", jobs[0])
        assert (refused.code, "Only administrators of" in refused.err) == (1, True)
        assert run("show", other, "--json").json["hold"] is None

        until("both are paused", lambda: "pausing" not in [state_of(run, job) for job in jobs])
        edited = run("edit", "--tag", "suspect", "--priority", "high", "--time-limit", "2h", user="admin")
        assert edited.code == 0, edited.err
        options = run("show", jobs[1], "--json").json["options"]
        assert (options["priority"], options["time_limit"]) == (75, 7200.0)
        assert run("edit", jobs[1], "--time-limit", "none").code == 0
        assert run("show", jobs[1], "--json").json["options"]["time_limit"] is None

        assert run("release", "--in", "susan", user="admin").code == 0
        assert [run("show", job, "--json").json["hold"] for job in jobs] == [None, None]
    finally:
        run("cancel", *jobs, other)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["edit", "x", "--priority", "urgent"], "There is no priority “urgent”."),
        (["edit", "x", "--workers", "two"], "two"),
        (["hold", "--reason", "why"], "Name the jobs, or choose them by --in, --user, --tag and --where."),
        (
            ["hold", "x", "--user", "susan", "--reason", "why"],
            "Give either jobs, here “x”, or options that choose them",
        ),
        (["hold", "x"], "--reason"),
    ],
)
def test_wrong_words_are_refused_before_anything_is_sent(run: Run, words: list[str], message: str) -> None:
    done = run(*words)
    assert (done.code, message in done.err) == (2, True), done.err


def today() -> str:
    return datetime.now().date().isoformat()  # noqa: DTZ005 - days of this machine


def test_the_trail_is_shown_chosen_and_exported(run: Run) -> None:
    began = today()
    job = sent(run)
    try:
        run("hold", job, "--reason", WHY, user="admin")
        table = run("audit", "--what", "job.hold", "--who", "admin", "--project", "susan", user="admin")
        assert (table.code, f"reason {WHY}" in table.out) == (0, True), table.err
        for shape in (["--json"], ["--format", "json"]):
            entries = run("audit", *shape, "--from", "2026-01-01", user="admin").json
            assert job in [entry["subject"] for entry in entries]
        rows = run("audit", "--format", "csv", "--limit", "1", user="admin")
        assert (rows.out.splitlines()[0], "There are more" in rows.err) == (
            "id,at,who,what,project,subject,before,after",
            True,
        )
        assert run("audit", "--from", "someday", user="admin").code == 2
        assert run("audit", "--to", "2000-01-01", user="admin").out == "No entries.\n"
        assert "job.hold" in run("audit", "--from", began, "--to", today(), user="admin").out
        assert run("audit").code == 1
    finally:
        run("cancel", job)


def test_a_project_is_frozen_and_changed_for_a_time(run: Run) -> None:
    job = sent(run)
    try:
        until("its start", lambda: state_of(run, job) == "running")
        frozen = run("freeze", "susan", "--reason", "A review", "--until", "2030-01-31 18:00", user="admin")
        assert frozen.code == 0, frozen.err
        assert re.search(r"susan is frozen until 2030-01-31 18:00\S+ \(Thursday\)", frozen.out)
        until("the pause", lambda: state_of(run, job) == "paused")
        assert "Project frozen by “admin”." in run("jobs", "--mine").out
        assert "springtide unfreeze susan" in run("explain", job).out
        changed = run("set-project", "susan", "--weight", "2", "--until", "tomorrow", user="admin")
        assert changed.code == 0, changed.err
        day = r"the end of [A-Z][a-z]+day, 20\d\d-\d\d-\d\d"
        assert re.search(rf" At {day} it returns to a weight of 1\.$", changed.out.strip())
        assert changed.out.startswith("susan now has a weight of 2. ")
        again = run("set-project", "susan", "--weight", "3", "--until", "tomorrow", user="admin")
        assert re.search(rf"a weight of 3\. At {day} it returns to a weight of 1\.$", again.out.strip())
        for option, value, words in (
            ("--build-quota", "1", "a build quota of 1"),
            ("--limit", "none", "no limit"),
        ):
            assert run("set-project", "susan", option, value, user="admin").out == f"susan now has {words}.\n"
        assert "(until 20" in run("needs", user="admin").out
        shown = run("projects").out
        assert "susan was frozen by admin at" in shown
        assert "weight of susan: 1 again at" in shown
        assert run("freeze", "susan").code == 1
        trail = run("audit", "--what", "project.freeze", "--limit", "1", user="admin").out
        assert "until 2030-01-31 18:00" in trail
        assert run("unfreeze", "susan", user="admin").out == "susan is not frozen any more.\n"
        again = run("unfreeze", "susan", user="admin")
        assert (again.code, again.out, "The project “susan” is not frozen." in again.err) == (1, "", True)
    finally:
        run("unfreeze", "susan", user="admin")
        run("set-project", "susan", "--weight", "1", user="admin")
        run("cancel", job)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["hold", "--user", "nobody", "--reason", WHY], "No unfinished job matches."),
        (["edit", "--tag", "no-such-tag", "--priority", "high"], "No unfinished job matches."),
        (["release", "--user", "nobody"], "No unfinished job matches."),
    ],
)
def test_a_choice_of_no_job_is_no_success(run: Run, words: list[str], message: str) -> None:
    done = run(*words, user="admin")
    assert (done.code, done.out, message in done.err) == (1, "", True), done.err


def test_a_release_where_nothing_is_on_hold_is_no_success(run: Run) -> None:
    job = sent(run, "--tag", "never-held")
    try:
        done = run("release", "--tag", "never-held", user="admin")
        assert (done.code, "None of the unfinished jobs that match is on hold." in done.err) == (1, True), done.err
    finally:
        run("cancel", job)


def test_a_drain_says_until_when(run: Run) -> None:
    nodes = run("nodes", "--json", user="admin").json
    node = next(each["name"] for each in nodes if each["environment"] == "train")
    try:
        done = run("drain", node, "--until", "2030-01-31 18:00", user="admin")
        assert done.code == 0, done.err
        assert re.search(rf"{node} is drained until 2030-01-31 18:00\S+ \(Thursday\)", done.out)
        trail = run("audit", "--what", "node.drain", "--limit", "1", user="admin").out
        assert "until 2030-01-31 18:00" in trail
    finally:
        run("undrain", node, user="admin")


def test_undrain_says_that_a_booking_drains_the_node_from_then_on(run: Run) -> None:
    nodes = run("nodes", "--json", user="admin").json
    node = next(each["name"] for each in nodes if each["environment"] == "train")
    made = run("book", node, "--for", "1h", "--reason", "A fan.", user="admin")
    assert made.code == 0, made.err
    number = made.out.split()[1].rstrip(":")
    try:
        assert run("drain", node, "--reason", "mine", user="admin").code == 0
        done = run("undrain", node, user="admin")
        assert f"{node} is not drained any more by hand." in done.out, done.err
        assert f"Still drained: {node} was drained by booking {number} of admin" in done.out
    finally:
        run("unbook", number, user="admin")
    assert f"{node} was drained" not in run("nodes", user="admin").out


def test_a_maintenance_is_booked_shown_and_cancelled(run: Run) -> None:
    nodes = run("nodes", "--json", user="admin").json
    node = next(each["name"] for each in nodes if each["environment"] == "train")
    assert "No bookings. Make one:" in run("bookings").out
    made = run("book", node, "--from", "2030-01-31 18:00", "--for", "2h", "--reason", "A fan.", user="admin")
    assert (made.code, f"maintenance of {node}, from 2030-01-31 18:00" in made.out) == (0, True), made.err
    number = made.out.split()[1].rstrip(":")
    try:
        listed = run("bookings").out
        assert all(words in listed for words in (number, f"maintenance of {node}", "A fan.", "2030-01-31 20:00"))
        assert run("bookings", "--json").json["items"][0]["number"] == int(number)
        again = run(
            "book", node, "--every", "sat", "--from", "9:00", "--until", "10:00", "--zone", "UTC", user="admin"
        )
        assert "Sat from 9:00 to 10:00, UTC: next from" in again.out, again.err
        assert run("unbook", again.out.split()[1].rstrip(":"), user="admin").code == 0
        refused = run("unbook", number)
        assert refused.code == 1
    finally:
        assert run("unbook", number, user="admin").out == f"Booking {number} is cancelled.\n"
    again = run("unbook", number, user="admin")
    assert (again.code, f"There is no booking {number}" in again.err) == (2, True)
    for part in ("booking", "make"):
        trail = run("audit", "--what", part, "--to", "2100-01-01", user="admin").out
        assert "start 2030-01-31 18:00" in trail
        assert f"nodes {node}" in trail
    rows = run("audit", "--what", "booking", "--format", "csv", user="admin").out
    assert '""start"":""2030-01-31T' in rows


def test_a_booking_is_previewed_and_changed(run: Run) -> None:
    nodes = run("nodes", "--json", user="admin").json
    node = next(each["name"] for each in nodes if each["environment"] == "train")
    when = ("--from", "2030-01-31 18:00", "--for", "2h")
    preview = run("book", node, *when, "--preview", user="admin")
    assert (preview.code, f"{node} closes: " in preview.out) == (0, True), preview.err
    assert run("bookings", "--json").json["items"] == []
    assert run("book", node, *when, "--preview", "--json", user="admin").json["refused"] is None
    wrong = run("book", "--project", "nobody", "--gpus", "1", *when, "--preview", user="admin")
    assert (wrong.code, "There is no project “nobody”." in wrong.err) == (2, True)
    number = run("book", node, *when, "--reason", "A fan.", user="admin").out.split()[1].rstrip(":")
    try:
        changed = run("book", "--change", number, "--until", "2030-02-01 08:00", user="admin")
        span = f"Booking {number}: maintenance of {node}, from 2030-01-31 18:00"
        assert (changed.code, span in changed.out, "2030-02-01 08:00" in changed.out) == (0, True, True), (
            changed.err
        )
        longer = run("book", "--change", number, "--for", "1h", "--reason", "Another fan.", user="admin")
        assert "2030-01-31 19:00" in longer.out
        kept = run("bookings", "--json").json["items"][0]
        assert (kept["why"], kept["nodes"], kept["end"] - kept["start"]) == ("Another fan.", [node], 3600)
        weekly = ("--every", "sat", "--from", "9:00", "--until", "10:00", "--zone", "UTC")
        assert run("book", "--change", number, *weekly, user="admin").code == 0
        again = run("book", "--change", number, "--until", "11:00", user="admin")
        assert (again.code, "This booking comes again: give --every" in again.err) == (2, True)
        both = run("book", "--change", number, "--until", "11:00", "--for", "1h", user="admin")
        assert both.code == 2
        unknown = run("book", "--change", "99999", "--reason", "x", user="admin")
        assert (
            unknown.code,
            f"There is no booking 99999: it has ended, or was never made. Bookings: {number}."
            in " ".join(unknown.err.split()),
        ) == (2, True)
    finally:
        run("unbook", number, user="admin")


def test_a_booking_begins_now_and_a_wrong_time_names_its_option(run: Run) -> None:
    nodes = run("nodes", "--json", user="admin").json
    node = next(each["name"] for each in nodes if each["environment"] == "train")
    made = run("book", node, "--from", "now", "--for", "1h", user="admin")
    assert (made.code, run("bookings", "--json").json["items"][0]["begun"]) == (0, True), made.err
    run("unbook", made.out.split()[1].rstrip(":"), user="admin")
    again = ["book", node, "--every", "sat", "--from", "9:00", "--until", "10:00"]
    wrong = {"--zone": "Europe/Nowhere", "--from": "25:00", "--until": "late", "--every": "x"}
    for option, words in wrong.items():
        refused = run(*again, option, words, user="admin")
        assert (refused.code, f"Invalid value for {option}: “{words}”" in refused.err) == (2, True), refused.err
    once = run("book", node, "--from", "someday", "--for", "1h", user="admin")
    assert (once.code, "Invalid value for --from: “someday”" in once.err) == (2, True), once.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["book", "--for", "2h"], "Name either nodes, for a maintenance, or --project."),
        (["book", "train", "--every", "sat"], "--every goes with times of day"),
        (["book", "train"], "Give either --until or --for."),
        (["book", "train", "--for", "long"], "long"),
        (["book", "train", "--gpus", "2", "--for", "2h"], "--gpus and --lend go with --project."),
        (["book", "--project", "susan", "--gpus", "2", "--lend", "joe", "--for", "2h"], "such as vision=2"),
    ],
)
def test_an_incomplete_booking_is_a_usage_error(run: Run, words: list[str], message: str) -> None:
    done = run(*words, user="admin")
    assert (done.code, message in done.err) == (2, True), done.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["set-project", "susan"], "Give at least one of --quota"),
        (["set-project", "susan", "--quota", "t4=3,t4=4"], "“t4=3,t4=4” has “t4” more than once"),
        (["set-project", "susan", "--quota", "many"], "“many” is no number of GPUs such as 4"),
        (["freeze", "susan", "--until", "someday"], "“someday” is not a time such as friday 18:00"),
        (["freeze", "susan", "--until", "2000-01-01"], "The end has passed already."),
        (["freeze", "susan", "--until", "9999-12-31"], "The end is more than ten years away."),
        (["drain", "train", "--until", "9999-12-31"], "The end is more than ten years away."),
    ],
)
def test_wrong_numbers_and_times_are_refused(run: Run, words: list[str], message: str) -> None:
    done = run(*words, user="admin")
    assert (done.code, message in done.err) == (2, True), done.err


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("4", 4),
        ("none", "none"),
        ("a100=2,t4=4", {"a100": 2, "t4": 4}),
        ("a100=2, t4=none", {"a100": 2, "t4": None}),
        ("2 a100, 4 t4", {"a100": 2, "t4": 4}),
        ("2 a100,none t4", {"a100": 2, "t4": None}),
    ],
)
def test_gpus_by_type_are_typed_with_equals_signs_or_as_screens_show_them(text: str, amount: object) -> None:
    assert Amount().convert(text, None, None) == amount


@pytest.mark.parametrize("text", ["", "a100", "4,", "2 a100, 4", "a100=", "=4", "a100 t4=2"])
def test_other_amounts_are_refused_with_examples(text: str) -> None:
    with pytest.raises(click.BadParameter, match=r"is no number of GPUs such as 4, a100=2,t4=4 or none\."):
        Amount().convert(text, None, None)


def test_an_admin_gives_a_project_a_budget_shows_it_and_takes_it_away(run: Run) -> None:
    given = run("budget", "susan", "50", "--gpu-hours", "--beyond", "no-borrowing", user="admin")
    try:
        assert (given.code, given.out.startswith("The project “susan” has spent ")) == (0, True), given.err
        shown = run("budget", user="admin")
        assert "50 GPU-hours" in shown.out
        assert [each["beyond"] for each in run("budget", "susan", "--json", user="admin").json] == ["no-borrowing"]
        assert run("budget", "susan", "10", "--remove", user="admin").code == 2
        assert run("budget", "susan", "0", user="admin").code == 2
        assert run("budget", "susan", "5", "--gpu-hours").code == 1
    finally:
        removed = run("budget", "susan", "--remove", user="admin")
    assert removed.out == "susan has no budget any more.\n"
    assert run("budget", user="admin").out.startswith("No budgets.")


def test_of_several_projects_to_freeze_all_are_frozen_that_can_be(run: Run) -> None:
    frozen = run("freeze", "nobody", "susan", "--reason", WHY, user="admin")
    try:
        assert (frozen.code, frozen.out) == (1, "susan is frozen until you unfreeze it.\n")
        assert "There is no project “nobody”." in frozen.err
    finally:
        thawed = run("unfreeze", "susan", "nobody", user="admin")
    assert (thawed.code, thawed.out) == (1, "susan is not frozen any more.\n")


def test_a_job_is_shown_with_its_priority_its_time_limit_and_who_holds_it(run: Run) -> None:
    job = sent(run, "--time-limit", "2h", "--priority", "60")
    try:
        assert run("hold", job, "--reason", WHY, user="admin").code == 0
        shown = run("show", job).out
        for line in ("priority     60", "time limit   2 h", "on hold      by admin since "):
            assert f"  {line}" in shown
        assert WHY in shown
    finally:
        run("cancel", job)

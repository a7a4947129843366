"""Whose reports those without the number of an attempt are, whenever they are read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from springtide.scheduler.executors.base import AttemptKey, Reported
from springtide.scheduler.executors.files import reports
from springtide.scheduler.executors.files.layout import BEGINNING, JobPlaces, opened
from springtide.scheduler.executors.files.tail import Tail


def job_of(root: Path, *, recorded: tuple[int, ...] = (1, 2, 3)) -> JobPlaces:
    """Return a job with a report of each of its three attempts, none of which has been read."""
    places = JobPlaces(root)
    places.reports.write_text("")
    for number in (1, 2, 3):
        directory = places.attempts / str(number)
        directory.mkdir(parents=True)
        if number in recorded:
            with opened(directory) as handle:
                places.write_beginning(handle)
        with places.reports.open("a") as file:
            file.write(json.dumps({"at": 10.0 * number, "step": number, "of": 3 - number}) + "\n")
    return places


def attempts_of(places: JobPlaces) -> list[int]:
    batch = reports.read(places.reports, 0, 10, 3, 99.0, beginnings=places.beginnings())
    return [each.attempt for each in batch.reports]


def test_each_is_that_of_the_attempt_that_was_launched_before_it(tmp_path: Path) -> None:
    assert attempts_of(job_of(tmp_path)) == [1, 2, 3]


@pytest.mark.parametrize(
    ("recorded", "attempts"), [((), [3, 3, 3]), ((3,), [2, 2, 3]), ((2, 3), [1, 2, 3]), ((1, 3), [1, 1, 3])]
)
def test_attempts_of_an_earlier_version_have_no_record(
    tmp_path: Path, recorded: tuple[int, ...], attempts: list[int]
) -> None:
    assert attempts_of(job_of(tmp_path, recorded=recorded)) == attempts


@pytest.mark.parametrize("content", ["", "{", "[]", '{"reports": -1}', '{"reports": true}', '{"reports": "9"}'])
def test_a_record_that_is_none_counts_as_missing(tmp_path: Path, content: str) -> None:
    places = job_of(tmp_path)
    (places.attempts / "2" / BEGINNING).write_text(content)
    assert attempts_of(places) == [1, 1, 3]


def test_a_link_in_place_of_a_record_is_not_followed(tmp_path: Path) -> None:
    places = job_of(tmp_path)
    record = places.attempts / "2" / BEGINNING
    (tmp_path / "elsewhere").write_bytes(record.read_bytes())
    record.unlink()
    record.symlink_to(tmp_path / "elsewhere")
    assert attempts_of(places) == [1, 1, 3]


def test_an_attempt_is_told_its_own_reports_alone(tmp_path: Path) -> None:
    places = job_of(tmp_path)
    tail = Tail(AttemptKey("job", 3), places.attempts / "3", places, [0])
    tail.read_history(99.0)
    (told,) = [each for each in tail.read_new(99.0)[0] if isinstance(each, Reported)]
    assert (told.last.step, told.last.attempt, tail.complete) == (3, 3, False)
    early = Tail(AttemptKey("job", 2), places.attempts / "2", places, [0])
    (told,) = [each for each in early.read_new(99.0)[0] if isinstance(each, Reported)]
    assert told.last.step == 2

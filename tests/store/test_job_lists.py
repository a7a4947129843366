"""Lists of jobs: filtered, searched, sorted and in pages, on SQLite and on PostgreSQL alike."""

from __future__ import annotations

import random
from typing import Any

import pytest
from jobs.store_records import ended, job

from springtide.scheduler.arguments import of_command, of_values
from springtide.scheduler.model import SHOWN_STATES, UNFINISHED, JobState
from springtide.scheduler.store import (
    ORDERS,
    Store,
    position,
)
from springtide.scheduler.store.queries import reading
from springtide.scheduler.store.records import (
    JobQuery,
    JobRecord,
    WriteBatch,
)
from springtide.scheduler.wire import MAX_TAGS_BYTES


def test_jobs_are_listed_newest_first_as_asked(store: Store) -> None:
    store.commit(
        WriteBatch(
            new_jobs=[
                job(1),
                job(2, user="joe", project="speech"),
                job(3, project="speech"),
                ended(job(4)),
                job(5, user="jemma"),
            ]
        )
    )

    def listed(before: int | None = None, limit: int = 10, **query: Any) -> list[int]:
        after = None if before is None else (-before, -before)
        return [one.spec.seq for one in store.read(reading.jobs, JobQuery(**query), after, limit)]

    assert listed() == [5, 4, 3, 2, 1]
    assert listed(limit=2) == [5, 4]
    assert listed(before=4) == [3, 2, 1]
    assert listed(user="susan") == [4, 3, 1]
    assert listed(project="speech") == [3, 2]
    assert listed(states=frozenset({"succeeded"})) == [4]
    assert listed(viewer="joe") == [2]
    assert listed(viewer="joe", viewer_projects=("vision",)) == [5, 4, 2, 1]
    assert listed(viewer="joe", viewer_projects=("vision",), user="jemma") == [5]


def test_jobs_are_found_by_the_state_in_which_they_are_shown(store: Store) -> None:
    def stopping(seq: int, state: JobState, why: str | None) -> JobRecord:
        return job(seq).with_standing(state=state, stopping=why)

    store.commit(
        WriteBatch(
            new_jobs=[
                job(1),
                stopping(2, JobState.PAUSING, None),
                stopping(3, JobState.PAUSING, "cancel"),
                stopping(4, JobState.PAUSING, "time-limit"),
                stopping(5, JobState.RUNNING, "cancel"),
                stopping(6, JobState.RUNNING, None),
                ended(stopping(7, JobState.PAUSING, "cancel")),
            ]
        )
    )

    def listed(*states: str) -> list[int]:
        found = store.read(reading.jobs, JobQuery(states=frozenset(states)), None, 10)
        assert all(one.standing.shown in states for one in found)
        return [one.spec.seq for one in found]

    assert listed("cancelling") == [5, 3], "a sweep runs while the trials that it cancels end"
    assert (listed("ending"), listed("pausing"), listed("running")) == ([4], [2], [6])
    assert listed("ending", "pausing", "queued") == [4, 2, 1]
    assert listed("cancelling", "running") == [6, 5, 3]
    assert listed(*UNFINISHED) == [6, 5, 4, 3, 2, 1]
    assert listed(*SHOWN_STATES) == [7, 6, 5, 4, 3, 2, 1]


ORDERED = {
    "running": [2, 1, 3, 5, 4],
    "-running": [4, 5, 3, 1, 2],
    "state": [2, 1, 3, 5, 4],
    "-state": [4, 5, 3, 1, 2],
    "newest": [5, 4, 3, 2, 1],
    "-newest": [1, 2, 3, 4, 5],
    "latest": [3, 2, 1, 5, 4],
    "-latest": [4, 5, 1, 2, 3],
    "name": [1, 3, 5, 4, 2],
    "gpus": [1, 2, 4, 5, 3],
    "-gpus": [3, 5, 4, 2, 1],
    "user": [5, 2, 1, 3, 4],
    "project": [2, 3, 1, 4, 5],
}


@pytest.fixture
def five(store: Store) -> Store:
    """A store with five jobs: the second runs, the last two have ended."""
    running = job(2, user="joe", project="speech", name="zebra", tags=("baseline", "lr-0.1")).with_standing(
        state=JobState.RUNNING
    )
    jobs = [
        job(
            1,
            name="alpha 100%",
            tags=("Größe",),
            arguments=of_command(["train.py", "--use-amp", "--lr", "0.1"]),
            source='{"nesterov":{"value":true}}',
        ),
        running.with_standing(state=JobState.RUNNING),
        job(
            3,
            project="speech",
            name="bert",
            gpus=8,
            workers=2,
            submitted=500.0,
            tags=("baseline-2",),
            arguments=of_command(["train.py", "--Nesterov", "--api-key", "abc"]),
        ),
        ended(job(4, name="digits_1", arguments=of_values({"nesterov": False, "use_amp": None, "adam_eps": 0}))),
        ended(job(5, user="jemma", name="cat", gpus=4)),
    ]
    store.commit(WriteBatch(new_jobs=jobs))
    return store


@pytest.mark.parametrize("order", ORDERED)
def test_jobs_come_page_after_page_in_every_order(five: Store, order: str) -> None:
    query = JobQuery(order=order)
    seen: list[int] = []
    after = None
    while page := five.read(reading.jobs, query, after, 2):
        seen += [one.spec.seq for one in page]
        after = position(order, page[-1])
    assert seen == ORDERED[order]
    assert {name.removeprefix("-") for name in ORDERED} == set(ORDERS)


def test_the_order_by_state_keeps_ended_jobs_of_one_state_together(five: Store) -> None:
    more = [
        ended(job(6)).with_standing(state=JobState.CANCELLED),
        ended(job(7)).with_standing(state=JobState.FAILED),
        ended(job(8)),
    ]
    five.commit(WriteBatch(new_jobs=more))

    def listed(order: str) -> list[int]:
        return [one.spec.seq for one in five.read(reading.jobs, JobQuery(order=order), None, 20)]

    assert listed("state") == [2, 1, 3, 8, 5, 4, 7, 6]
    assert listed("-state") == listed("state")[::-1]
    assert listed("running") == [2, 1, 3, 8, 7, 6, 5, 4]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"search": "DIGITS"}, [4]),
        ({"search": "100%"}, [1]),
        ({"search": "s_1"}, [4]),
        ({"search": "speech z"}, [2]),
        ({"search": "job3"}, [3]),
        ({"search": "JEMMA bert"}, []),
        ({"search": "jemma CAT"}, [5]),
        ({"search": "größe"}, [1]),
        ({"search": "GRößE"}, [1]),
        ({"search": "nothing"}, []),
        ({"search": "nesterov"}, [3]),
        ({"search": "--Nesterov BERT"}, [3]),
        ({"search": "api-key"}, [3]),
        ({"search": "adam_eps"}, [4]),
        ({"search": "--use-amp"}, [1]),
        ({"search": "use_amp lr"}, [1]),
        ({"search": "nester"}, []),
        ({"search": "--"}, []),
        ({"search": "0.1"}, [2]),
        ({"search": "nesterov", "user": "jemma"}, []),
        ({"since": 500.0}, [3]),
        ({"search": "BASELINE", "order": "name"}, [3, 2]),
        ({"tag": "baseline"}, [2]),
        ({"tag": "lr-0.1", "order": "running"}, [2]),
        ({"tag": "Baseline"}, []),
        ({"tag": "%"}, []),
    ],
)
def test_jobs_are_searched(five: Store, query: dict[str, Any], found: list[int]) -> None:
    assert [one.spec.seq for one in five.read(reading.jobs, JobQuery(**query), None, 10)] == found


def test_the_longest_texts_of_a_job_fit_into_the_index_of_lists(store: Store) -> None:
    hard_to_compress = random.Random(1)

    def text_of(length: int) -> str:
        return "".join(chr(hard_to_compress.randrange(0x1F300, 0x1F5FF)) for _ in range(length))

    tags = tuple(text_of(MAX_TAGS_BYTES // 80) for _ in range(20))
    store.commit(
        WriteBatch(new_jobs=[job(1, user=text_of(255), project=text_of(64), name=text_of(128), tags=tags)])
    )
    [found] = store.read(reading.jobs, JobQuery(tag=tags[-1]), None, 10)
    assert found.spec.options.tags == tags

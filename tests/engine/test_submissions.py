"""Valid submissions, and the refusals of invalid ones."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from springtide.scheduler import wire, wording
from springtide.scheduler.engine import EngineSettings
from springtide.scheduler.engine.requests import validation
from springtide.scheduler.model import Node, Project
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.store import StoreError, schema
from springtide.scheduler.store.queries import reading
from springtide.scheduler.store.records import JobSpec
from springtide.scheduler.store.tables import ProjectRecord

NODES = (
    Node("a", 8, "v100", labels={"rack": "r1"}, sockets=((0, 1, 2, 3), (4, 5, 6, 7))),
    Node("b", 4, "v100", labels={"rack": "r1"}, islands=((0, 1), (2, 3))),
    Node("c", 2, "a100", labels={"rack": "r2"}),
)
PROJECTS = {
    "research": Project("research", quota=8, limit=10),
    "vision": Project("vision", "research", quota=2, limit=6),
    "open": Project("open", quota=4),
}
RECORDS = {name: ProjectRecord(project) for name, project in PROJECTS.items()}
SMALL = EngineSettings(max_files=3, max_files_bytes=1000, max_env_bytes=200, max_argv_bytes=200)


def checked(project: str = "open", nodes: tuple[Node, ...] = NODES, **fields: Any) -> JobSpec:
    fields.setdefault("argv", ["python", "train.py"])
    context = validation.ValidationContext(nodes, RECORDS, SMALL)
    return validation.validate_submission(
        wire.Submission(**fields), "susan", project, context, job_id="a", now=1.0
    )


BAD = {
    "unknown project": ({"project": "nobody"}, "project", "nobody"),
    "no command": ({"argv": []}, "argv", "no command"),
    "empty command": ({"argv": [""]}, "argv", "no command"),
    "NUL in the command": ({"argv": ["a\0b"]}, "argv", "NUL"),
    "half a character": ({"argv": ["\ud800"]}, "argv", "not text"),
    "long command": ({"argv": ["x" * 300]}, "argv", "at most 200"),
    "negative GPUs": ({"gpus": -1}, "gpus", "from 0"),
    "half a GPU": ({"gpus": 0.5}, "gpus", "whole number"),
    "infinite GPUs": ({"gpus": float("inf")}, "gpus", "whole number"),
    "true GPUs": ({"gpus": True}, "gpus", "whole number"),
    "absurd GPUs": ({"gpus": 10**30}, "gpus", "whole number"),
    "more GPUs than any node": ({"gpus": 9}, "gpus", "largest train node has 8"),
    "no workers": ({"workers": 0}, "workers", "from 1"),
    "more workers than room": (
        {"workers": 3, "gpus": 4, "min_workers": 4},
        "min_workers",
        "larger than workers (3)",
    ),
    "a gang that never fits": ({"workers": 4, "gpus": 4}, "workers", "room for 3"),
    "a type nobody has": ({"gpu_types": ["h100"]}, "gpu_types", "h100"),
    "too many of a type": ({"gpu_types": ["a100"], "gpus": 4}, "gpus", "has 2"),
    "a level to be preferred that turns text round": ({"prefer": "ra\u202eck"}, "prefer", "control characters"),
    "a level to be preferred with colours": ({"prefer": "\x1b[31mrack"}, "prefer", "control characters"),
    "a level to be preferred without end": ({"prefer": "r" * 1000}, "prefer", "at most 128 characters"),
    "a level nobody has": ({"require": "zone"}, "require", "zone"),
    "no rack holds it": ({"require": "rack", "workers": 4, "gpus": 4}, "workers", "room"),
    "no node holds it": ({"require": "node", "workers": 3, "gpus": 3}, "require", "No single node"),
    "no island holds it": ({"require": "island", "gpus": 2, "workers": 5}, "require", "No single island"),
    "no socket holds it": (
        {"require": "socket", "gpus": 3, "workers": 2},
        "require",
        "No single socket has room for 2 workers with 3 GPUs each",
    ),
    "levels within nodes are named": (
        {"require": "node", "gpus": 3, "workers": 3},
        "require",
        "Levels here: island, node, rack, socket.",
    ),
    "over the limit": ({"project": "vision", "gpus": 8}, "gpus", "never hold more than 6"),
    "over the parent's limit": (
        {"project": "research", "gpus": 4, "workers": 3},
        "gpus",
        "never hold more than 10",
    ),
    "not preemptible over quota": ({"gpus": 5, "priority": 100}, "priority", "quota of “open” is 4"),
    "not preemptible by wish": ({"gpus": 5, "preemptible": False}, "preemptible", "quota of “open” is 4"),
    "unknown priority": ({"priority": "urgent"}, "priority", "train, high, critical"),
    "negative priority": ({"priority": -1}, "priority", "from 0"),
    "absurd priority": ({"priority": "9" * 50}, "priority", "from 0"),
    "true priority": ({"priority": True}, "priority", "from 0"),
    "control characters in the name": ({"name": "a\x1b[31m"}, "name", "control"),
    "direction marks in the name": ({"name": "a\u202eb"}, "name", "control"),
    "long name": ({"name": "a" * 129}, "name", "128"),
    "empty key": ({"key": ""}, "key", "empty"),
    "bad variable": ({"env": {"A=B": "1"}}, "env", "A=B"),
    "NUL in a variable": ({"env": {"A": "\0"}}, "env", "NUL"),
    "large environment": ({"env": {"A": "x" * 300}}, "env", "at most 200"),
    "relative folder": ({"cwd": "here"}, "cwd", "absolute"),
    "NUL in the folder": ({"cwd": "/a\0"}, "cwd", "NUL"),
    "absolute file": ({"files": {"/etc/passwd": b""}}, "files", "/etc/passwd"),
    "file outside": ({"files": {"../a": b""}}, "files", "“../a”"),
    "file outside, hidden": ({"files": {"a/../../b": b""}}, "files", "leaves"),
    "file with a dot": ({"files": {"./a": b""}}, "files", "“./a”"),
    "nameless file": ({"files": {"": b""}}, "files", "“”"),
    "file with an empty part": ({"files": {"a//b": b""}}, "files", "a//b"),
    "file with NUL": ({"files": {"a\0": b""}}, "files", "file's name"),
    "file of Windows": ({"files": {"..\\a": b""}}, "files", "forward"),
    "long file name": ({"files": {"a" * 300: b""}}, "files", "too long"),
    "file that is a folder": ({"files": {"a": b"", "a/b": b""}}, "files", "as a folder"),
    "many files": ({"files": {str(n): b"" for n in range(4)}}, "files", "at most 3"),
    "large files": ({"files": {"a": bytes(600), "b": bytes(600)}}, "files", "1200 bytes"),
    "code without files": ({"argv": ["python", "{code}/a.py"]}, "files", "{code}"),
    "no time": ({"time_limit": 0.0}, "time_limit", "above 0"),
    "not a time": ({"time_limit": float("nan")}, "time_limit", "above 0"),
    "negative grace": ({"grace": -1.0}, "grace", "from 0"),
    "endless grace": ({"grace": 1e9}, "grace", "up to 1h"),
    "negative retries": ({"retries": -1}, "retries", "from 0"),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_submissions_are_refused_by_field_and_in_words(what):
    given: Any
    given, field, words = BAD[what]
    fields = dict(given)
    with pytest.raises(Refusal) as refused:
        checked(project=fields.pop("project", "open"), **fields)
    assert refused.value.field == field
    assert words in f"{refused.value.message} {refused.value.hint}"
    assert refused.value.status in {413, 422}


def test_a_pool_without_gpus_says_so():
    with pytest.raises(Refusal, match="no train GPUs"):
        checked(nodes=())


def test_a_plain_submission_gets_the_defaults():
    spec = checked(argv=["python", "-u", "/home/susan/train.py", "--lr", "1"])
    assert (spec.name, spec.options.priority, spec.options.is_preemptible, spec.options.least_workers) == (
        "train.py",
        50,
        True,
        1,
    )


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"priority": "high"}, (75, True)),
        ({"priority": "critical"}, (100, False)),
        ({"priority": 99}, (99, True)),
        ({"priority": "60"}, (60, True)),
        ({"priority": 100, "preemptible": True}, (100, True)),
        ({"priority": 10, "preemptible": False}, (10, False)),
    ],
)
def test_priorities_have_names_and_numbers(fields, expected):
    spec = checked(**fields)
    assert (spec.options.priority, spec.options.is_preemptible) == expected


def test_an_elastic_job_has_to_fit_with_its_least_workers_only():
    assert checked(workers=100, gpus=1, min_workers=1).workers == 100
    assert checked("vision", workers=100, gpus=1, min_workers=6).options.least_workers == 6


@pytest.mark.parametrize(
    "fields", [{"require": "rack", "workers": 3, "gpus": 4}, {"require": "node", "gpus": 2, "workers": 4}]
)
def test_what_one_domain_holds_is_accepted(fields):
    assert checked(**fields).options.require == fields["require"]


@pytest.mark.parametrize("name", ["", " ", "\u3000"])
def test_an_empty_name_is_none(name):
    assert checked(name=name).name == "train.py"


@pytest.mark.parametrize(("name", "why"), [("x" * 129, "129 characters"), ("a\u202eb", "has control characters")])
def test_a_refused_name_says_why(name, why):
    with pytest.raises(Refusal, match=why):
        checked(name=name)


@given(
    st.dictionaries(st.text(max_size=20), st.binary(max_size=10), max_size=3),
    st.lists(st.text(max_size=20), max_size=4),
    st.dictionaries(st.text(max_size=10), st.text(max_size=10), max_size=3),
    st.text(max_size=20),
)
@settings(max_examples=60)
def test_whatever_is_sent_is_accepted_or_refused_and_files_stay_inside(files, argv, env, name):
    try:
        spec = checked(files=files, argv=argv, env=env, name=name)
    except Refusal:
        return
    assert wording.is_printable(spec.name)
    for file in files:
        assert not file.startswith("/")
        assert ".." not in file.split("/")
    assert all("\0" not in word for word in spec.argv)


# ---------- in the pool


async def test_a_refused_submission_leaves_nothing(pool):
    with pytest.raises(Refusal):
        await pool.submit(gpus=9)
    assert pool.store.read(reading.load).jobs == ()


async def test_one_person_cannot_fill_the_queue(make_pool):
    pool = await make_pool(settings=EngineSettings(queue_cap_per_user=3, queue_cap=5))
    outcomes = await asyncio.gather(*(pool.submit(gpus=8) for _ in range(10)), return_exceptions=True)
    refused = [outcome for outcome in outcomes if isinstance(outcome, Refusal)]
    assert len(refused) == 7
    assert {(r.status, r.code) for r in refused} == {(429, "too_many_jobs")}
    await pool.submit("joe", gpus=8)
    await pool.submit("joe", gpus=8)
    with pytest.raises(Refusal) as full:
        await pool.submit("jemma", gpus=8)
    assert full.value.code == "queue_full"
    waiting = next(job for job in pool.store.read(reading.load).jobs if job.spec.user == "susan")
    await pool.engine.cancel(waiting.id, "susan")
    await pool.state(waiting.id, "cancelled")
    await pool.submit("jemma", gpus=8)


async def test_a_project_that_is_deleted_takes_no_more_jobs(pool, members):
    await pool.engine.delete_project("jemma", "admin")
    with pytest.raises(Refusal) as refused:
        await pool.submit("jemma")
    assert refused.value.code == "unknown_project"


async def test_hundreds_of_submissions_at_once_are_all_on_disk(pool):
    jobs = await asyncio.gather(*(pool.submit(gpus=8, files={"a.py": b"%d" % n}) for n in range(300)))
    assert len({job.id for job in jobs}) == 300
    assert {job.id for job in jobs} <= {job.id for job in pool.store.read(reading.load).jobs}
    assert pool.engine.stats.commits < 100
    assert sorted(job.spec.seq for job in pool.store.read(reading.load).jobs) == list(range(1, 301))


async def test_keys_that_come_together_are_looked_up_together(pool, monkeypatch):
    asked: list[list[object]] = []
    read = pool.store.read

    def counted(query, *args: object):
        if query is reading.jobs_by_key:
            asked.append(list(*args))
        return read(query, *args)

    monkeypatch.setattr(pool.store, "read", counted)
    jobs = await asyncio.gather(*(pool.submit(gpus=8, key=f"key {n % 50}") for n in range(100)))
    assert len({job.id for job in jobs}) == 50
    assert sum(len(keys) for keys in asked) == 50
    assert len(asked) < 5


async def test_a_store_that_fails_when_keys_are_looked_up_is_told_in_words(pool, monkeypatch):
    def broken(*_args: object):
        raise StoreError("The store failed.")

    monkeypatch.setattr(pool.store, "read", broken)
    with pytest.raises(Refusal) as refused:
        await pool.submit(gpus=1, key="one")
    assert (refused.value.status, refused.value.code) == (503, "store")


async def test_a_full_disk_refuses_in_words_and_the_pool_goes_on(pool):
    running = await pool.submit(gpus=8)
    await pool.state(running.id, "running")
    await pool.idle()
    with pool.store._writer.connect() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar()
        connection.exec_driver_sql(f"PRAGMA max_page_count={pages}")
    before = len(pool.store.read(reading.load).jobs)
    source = "x" * 200_000
    with pytest.raises(Refusal) as refused:
        await pool.submit(gpus=1, source=source)
    assert (refused.value.status, refused.value.code) == (507, "disk_full")
    assert "full" in refused.value.message
    pool.executor.end(pool.key(running.id), code=0)
    assert len(pool.store.read(reading.load).jobs) == before
    with pool.store._writer.connect() as connection:
        connection.exec_driver_sql("PRAGMA max_page_count=1000000")
    await pool.state(running.id, "succeeded")
    accepted = await pool.submit(gpus=1, source=source)
    await pool.state(accepted.id, "running")


async def test_an_end_that_could_not_be_written_is_told_to_nobody(pool):
    running = await pool.submit(gpus=8)
    await pool.state(running.id, "running")
    await pool.idle()
    with pool.store._writer.connect() as connection:
        connection.exec_driver_sql("PRAGMA max_page_count=1")
    blob = pool.engine.edit_person("x" * 200_000, wire.PersonEdit(build_quota=0), "admin", members={})
    pool.executor.end(pool.key(running.id), code=1)
    pause = pool.engine.pause(running.id, "susan")
    refused = await asyncio.gather(blob, pause, return_exceptions=True)
    assert [(each.status, each.code) for each in refused] == [(507, "disk_full")] * 2
    assert (await pool.job(running.id)).state == "running"
    with pool.store._writer.connect() as connection:
        connection.exec_driver_sql("PRAGMA max_page_count=1000000")
    await pool.state(running.id, "failed")


async def test_a_store_that_was_taken_over_ends_the_engine(pool):
    with pool.store._writer.begin() as connection:
        connection.execute(schema.meta.update().where(schema.meta.c.key == "epoch").values(value=99))
    with pytest.raises(Refusal) as refused:
        await pool.submit(gpus=1)
    assert refused.value.status == 503
    assert "taken over" in await pool.engine.wait_closed()
    assert not pool.executor.ran


async def test_a_job_answers_to_another_key_while_it_runs_and_after_it_has_ended(pool):
    job = await pool.submit(gpus=1, key="first")
    await pool.state(job.id, "running")
    for before, after in (("first", "second"), ("second", "third")):
        await pool.engine.rekey(job.id, before, after)
        await pool.engine.rekey(job.id, before, after)
        assert (await pool.submit(gpus=1, key=after)).id == job.id
        assert await pool.engine.job_of_key("susan", before) is None
        await pool.restart()
        assert (await pool.engine.job_of_key("susan", after)).id == job.id
        assert await pool.engine.job_of_key("susan", before) is None
        if before == "first":
            pool.executor.end(pool.key(job.id), code=0)
            await pool.state(job.id, "succeeded")
    assert (await pool.submit(gpus=1, key="first")).id != job.id


async def test_no_job_gets_a_key_that_another_answers_to_or_that_replaces_an_unexpected_one(pool):
    job, other = await pool.submit(gpus=1, key="one"), await pool.submit(gpus=1, key="two")
    for before, after in (("one", "two"), ("three", "four")):
        with pytest.raises(Refusal) as refused:
            await pool.engine.rekey(job.id, before, after)
        assert (refused.value.status, refused.value.code) == (409, "other_key")
    await pool.state(other.id, "running")
    pool.executor.end(pool.key(other.id), code=0)
    await pool.state(other.id, "succeeded")
    await pool.restart()
    with pytest.raises(Refusal, match=f"job {other.id} does"):
        await pool.engine.rekey(job.id, "one", "two")
    assert (await pool.engine.job_of_key("susan", "one")).id == job.id

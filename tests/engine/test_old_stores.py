"""Stores of every released schema are migrated, and their jobs run to completion."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec
import pytest
from alembic.script import ScriptDirectory
from old_store import dump, fill

from springtide.scheduler.engine import JobFilter, default_projects
from springtide.scheduler.engine.state import journal
from springtide.scheduler.model import Snapshot
from springtide.scheduler.notifications import NotificationEvent
from springtide.scheduler.store import Store, opening
from springtide.scheduler.store.queries import reading

SCHEMAS = Path(__file__).parents[1] / "store" / "schemas"
FILES = sorted(SCHEMAS.glob("*.sql"))
ENDED = {"succeeded": "succeeded", "failed": "failed", "cancelled": "cancelled"}
UNFINISHED = {"elastic", "held", "owner", "gang", "waiting"}


@pytest.fixture(params=FILES, ids=lambda path: path.stem)
def old(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A state directory with a store of an older version."""
    with closing(sqlite3.connect(tmp_path / "springtide.sqlite")) as connection:
        connection.executescript(request.param.read_text())
    return tmp_path


def test_every_schema_has_a_store_to_test_with() -> None:
    script = ScriptDirectory.from_config(opening.migrations_config())
    revisions = {revision.revision for revision in script.walk_revisions()}
    kept = {path.stem.partition("-")[0] for path in FILES}
    assert kept == revisions, "make the missing ones by tests/support/old_store.py, before more is changed"


async def test_the_jobs_of_an_old_store_run_to_completion(old, make_pool):
    pool = await make_pool(path=old)
    pool.clock.now += 2000.0
    jobs = {job.name: job for job in (await pool.engine.jobs(JobFilter(), None, 100)).items}
    assert {name: jobs[name].state for name in ENDED} == ENDED
    assert jobs.keys() - {"sweep", "again"} == ENDED.keys() | UNFINISHED
    assert (jobs["elastic"].saved_step, jobs["succeeded"].progress.values["loss"]) == (7, 0.5)
    assert jobs["held"].held_by_user
    options = jobs["elastic"].options
    assert (options.gpus, options.workers, options.min_workers, options.preemptible) == (1, 6, 2, True)
    owner = jobs["owner"].options
    assert (owner.priority, owner.time_limit, owner.min_workers) == (75, 3600.0, 1)
    await pool.engine.resume(jobs["held"].id, "jemma")
    ids = {jobs[name].id for name in jobs.keys() - ENDED.keys()}
    while ids:
        await pool.later(60.0)
        for key in pool.executor.live():
            pool.executor.end(key, code=0)
        await pool.idle()
        ids -= {job for job in ids if (await pool.job(job)).state == "succeeded"}
    files = {spec.key.job: spec.files for spec in pool.executor.specs.values()}
    assert files[jobs["elastic"].id] == {"a.py": b"1"}
    if jobs["elastic"].options.tags:
        tagged = await pool.engine.jobs(JobFilter(tag="baseline"), None, 10)
        assert [job.name for job in tagged.items] == ["elastic"]
    if (again := jobs.get("again")) is not None:
        assert again.rerun.text == "Run again of “failed”: name failed → again, gpus 1 → 2."
    if (sweep := jobs.get("sweep")) is not None:
        found = (await pool.job(sweep.id)).trials
        assert (found.succeeded, found.best.value, found.best.parameters) == (4, 0.5, {"rate": 0.0})


def revision(old: Path) -> str:
    with closing(sqlite3.connect(old / "springtide.sqlite")) as connection:
        (found,) = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    return str(found)


async def test_what_else_an_old_store_has_is_there(old, make_pool):
    schema = revision(old)
    drained = {"build": "a fan"} if schema >= "0009" else {}
    default_project = "vision" if schema >= "0012" else None
    hot = {"GPU-build-2": "it is hot"} if schema >= "0012" else {}
    idle_rules = {("person", "susan"): 1_800.0} if schema >= "0013" else {}
    pool = await make_pool(path=old)
    projects = {project.name: project for project in pool.engine.admin({"joe": ["joe"]}).projects}
    assert (projects["vision"].quota, projects["vision"].weight) == (2, 2.0)
    if schema >= "0024":
        assert (projects["speech"].freeze.why, projects["speech"].endings["weight"].before) == ("a review", 1.0)
    assert (projects["joe"].limit, projects["joe"].priority) == (6, 120)
    assert [workspace.user for workspace in pool.engine.workspaces()] == ["susan"]
    drains = {node.name: node.drain.why for node in pool.engine.pool().nodes if node.drain is not None}
    assert drains == drained
    assert default_projects.chosen(pool.engine.state, "susan") == default_project
    rules = {(each.scope, each.name): each.rule.notice for each in pool.engine.idle_workspaces.rules().exceptions}
    assert rules == idle_rules
    if schema >= "0005":
        choice = pool.engine.outbox.choice("susan")
        assert all(NotificationEvent.WORKSPACE in events for events in choice.events.values() if events)
        ends = [NotificationEvent.SUCCEEDED_SOON in events for events in choice.events.values() if events]
        assert all(ends), "whoever had chosen ends hears of quick ones as before"
        assert choice.addresses == {"webhook": "https://hooks.slack.com/services/secret"}
    gpus = {cell.uuid: cell.drain.why for node in pool.engine.pool().nodes for cell in node.gpus if cell.drain}
    assert gpus == hot
    assert {entry.subject for entry in (await pool.engine.audit(None, 50)).items} >= {"vision", "joe"}
    assert (await pool.engine.job_of_key("joe", "once")).name == "owner"


def test_the_decisions_of_an_old_store_can_be_read(old: Path) -> None:
    store = Store.open(f"sqlite:///{old / 'springtide.sqlite'}", old)
    try:
        decisions = store.read(reading.decisions, 1, 1000)
    finally:
        store.close()
    assert decisions
    for record in decisions:
        assert journal.decode_plan(record.plan).decisions
        journal.decode_changes(record.changes)
        if record.snapshot is not None:
            msgspec.json.decode(record.snapshot, type=Snapshot)


async def test_the_present_schema_can_be_kept_the_same_way(tmp_path: Path) -> None:
    await fill(tmp_path)
    assert "INSERT INTO" in dump(tmp_path / "springtide.sqlite")

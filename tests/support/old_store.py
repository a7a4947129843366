"""A store with everything in it, as SQL: `python tests/support/old_store.py >tests/store/schemas/REVISION.sql`.

It is run once for each released schema, with the code of that release.
"""

from __future__ import annotations

import asyncio
import importlib.util
import sqlite3
import sys
import tempfile
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from pools.all_channels import CHANNELS, WEBHOOK, WITH_ADDRESS

from springtide.scheduler import wire
from springtide.scheduler.engine import default_projects
from springtide.scheduler.engine.idle import Decision, Step
from springtide.scheduler.engine.requests.hub_users import Seen
from springtide.scheduler.executors.base import AttemptKey, TrialReport
from springtide.scheduler.gpu_reading import Reading
from springtide.scheduler.notifications import NotificationChoice, NotificationEvent, NotificationSettings
from springtide.scheduler.project_tree import TreeFile, digest_of, pack
from springtide.scheduler.store import gpu_usage_writing, shown_forecasts
from springtide.scheduler.store.gpu_usage import FINE, UsageKey, UsageRecord
from springtide.scheduler.store.shown_forecasts import ShownForecast
from springtide.scheduler.store.tables import IdleRule, RuleScope

ENGINE = Path(__file__).parents[1] / "engine"
ADMIN = "admin"


def engine_tests() -> ModuleType:
    """Return the module with the engine's test pool."""
    spec = importlib.util.spec_from_file_location("engine_conftest", ENGINE / "conftest.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


async def fill(path: Path) -> None:
    """Make a store with jobs in all states, projects, people, a workspace, files, decisions, audit trail, use."""
    tests = engine_tests()
    settings = replace(tests.QUICK, notifications=NotificationSettings(CHANNELS, WITH_ADDRESS))
    pool: Any = tests.Pool(path, settings=settings)
    await pool.start()
    engine, executor = pool.engine, pool.executor
    await engine.create_project("vision", wire.ProjectEdit(quota=2, weight=2.0), ADMIN, members={})
    await engine.edit_project("joe", wire.ProjectEdit(limit=6, priority=120), ADMIN, members={"joe": ["joe"]})
    await engine.edit_person("joe", wire.PersonEdit(build_quota=0), ADMIN, members={"joe": ["joe"]})
    await engine.reserve_workspace("susan", "", 1, ["susan"])
    await engine.drain_node(wire.DrainRequest(node="build", why="a fan", finish=True), ADMIN)
    await engine.drain_node(wire.DrainRequest(node="build", gpu=2, why="it is hot"), ADMIN)
    chosen = {channel: frozenset(NotificationEvent) for channel in CHANNELS}
    await engine.outbox.choose(
        NotificationChoice("susan", chosen, {WEBHOOK: "https://hooks.slack.com/services/secret"})
    )
    await engine.change(lambda change: default_projects.choose(change, "susan", "vision"))
    users = {"susan": "2026-01-01T10:00:00.000001Z", "joe": "2026-01-02T10:00:00.000001Z"}
    await engine.follow_hub(
        Seen(users, {"susan": ["susan"], "joe": ["joe"], "vision": ["joe", "susan"]}, {"susan": ["joe"]})
    )
    await engine.idle_workspaces.set_rule((RuleScope.PERSON, "susan"), IdleRule(7_200.0, 1_800.0), ADMIN)
    await engine.idle_workspaces.tell("susan", "", Decision(Step.TELL, 7_300.0, None), IdleRule(7_200.0, 1_800.0))
    edit = wire.ProjectEdit(quota=3, until=1e8)
    asked = wire.NewChangeRequest(wanted=wire.ProjectWanted(project="vision", edit=edit), why="a deadline")
    await engine.change_requests.make(asked, "susan", {"vision": ["joe", "susan"]})
    succeeded = (await pool.submit(gpus=1, name="succeeded")).id
    failed = (await pool.submit(gpus=1, name="failed", retries=0)).id
    cancelled = (await pool.submit(gpus=1, name="cancelled")).id
    for job in (succeeded, failed, cancelled):
        await pool.state(job, "running")
    executor.report(AttemptKey(succeeded, 1), step=3, of=4, saved=True, loss=0.5)
    executor.end(AttemptKey(succeeded, 1), code=0)
    executor.end(AttemptKey(failed, 1), code=3)
    await engine.cancel(cancelled, "susan")
    for job, state in ((succeeded, "succeeded"), (failed, "failed"), (cancelled, "cancelled")):
        await pool.state(job, state)
    packed = pack({"a.py": TreeFile(b"1")}, {})
    tree = wire.ProjectTree(root="/home/susan/study", digest=digest_of(packed), file_count=1, file_bytes=1)
    await engine.send_tree("susan", digest_of(packed), packed)
    borrower = (
        await pool.submit(
            gpus=1, workers=6, min_workers=2, name="elastic", files={"a.py": b"1"}, tags=["baseline"], tree=tree
        )
    ).id
    await pool.state(borrower, "running")
    executor.report(AttemptKey(borrower, 1), step=7, of=90, saved=True, loss=0.25)
    held = (await pool.submit("jemma", gpus=2, name="held")).id
    await pool.later(100.0)
    await pool.state(held, "running")
    executor.report(AttemptKey(held, 1), step=1, saved=True)
    await engine.pause(held, "jemma")
    await pool.state(held, "paused")
    await pool.submit("joe", gpus=2, name="owner", priority=75, time_limit=3600.0, key="once")
    await pool.submit("joe", gpus=1, workers=2, name="gang")
    trials = wire.Trials(number=4, metric="loss", parameters=[{"rate": n / 10} for n in range(4)])
    sweep = (await pool.submit("jemma", gpus=1, name="sweep", trials=trials)).id
    await pool.state(f"{sweep}t0", "running")
    executor.report(AttemptKey(f"{sweep}t0", 1), trial=TrialReport(None, 0.5, ((1.0, 0.5),)), loss=0.5)
    executor.end(AttemptKey(f"{sweep}t0", 1), code=0)
    await pool.state(f"{sweep}t0", "succeeded")
    first = await engine.reruns.first(failed)
    again = await engine.reruns.submission(failed, {"gpus": 2, "name": "again"}, None)
    await engine.submit(again, "susan", "susan", again=first)
    executor.slow_start = True
    await pool.submit("joe", gpus=6, name="waiting", env={"EPOCHS": "3"})
    await pool.later(100.0)
    await pool.idle()
    await engine.create_project("speech", wire.ProjectEdit(), ADMIN, members={})
    await engine.freeze("speech", wire.FreezeRequest(why="a review", until=1e8), ADMIN, members={})
    await engine.edit_project("speech", wire.ProjectEdit(weight=3.0, until=1e8), ADMIN, members={})
    await engine.budgets.set("speech", wire.BudgetRequest(amount=9.5, unit="gpu-hours"), ADMIN)
    await engine.presets.set(None, "small", wire.PresetPart(options={"gpus": 1, "time_limit": "2h"}), ADMIN)
    key = UsageKey("GPU-train-0", kind="job", job=borrower, user="susan", project="susan")
    use = UsageRecord(step=FINE, at=1_000_000, seconds=FINE, key=key, reading=Reading(utilization=0.5))
    pool.store.write(gpu_usage_writing.save, [use], pool.clock())
    pool.store.write(
        shown_forecasts.save, [ShownForecast(f"{sweep}t0", pool.clock(), None, pool.clock() + 60, None)]
    )
    await pool.stop()


def dump(database: Path) -> str:
    """Return the content of an SQLite database as SQL."""
    with closing(sqlite3.connect(database)) as connection:
        return "\n".join(connection.iterdump()) + "\n"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(fill(Path(folder)))
        sys.stdout.write(dump(Path(folder) / "springtide.sqlite"))

"""The engine's story on both kinds of database."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest
from sqlalchemy import text
from stores.earlier_store import EARLIER, write_earlier

spec = importlib.util.spec_from_file_location(
    "engine_conftest", Path(__file__).parents[1] / "engine" / "conftest.py"
)
engine_conftest = importlib.util.module_from_spec(spec)
sys.modules["engine_conftest"] = engine_conftest
spec.loader.exec_module(engine_conftest)


@pytest.fixture
async def pool(url, tmp_path):
    one = engine_conftest.Pool(tmp_path, url=url)
    await one.start()
    yield one
    await one.stop()


async def test_a_reclaim_survives_a_restart_in_every_step(pool):
    victim = await pool.submit(gpus=8, files={"a.py": b"1"})
    await pool.state(victim.id, "running")
    pool.executor.report(pool.key(victim.id), step=5, saved=True)
    await pool.restart()
    owners = await pool.submit("joe", gpus=2, key="once")
    await pool.state(owners.id, "running")
    await pool.state(victim.id, "paused")
    await pool.restart()
    assert (await pool.submit("joe", gpus=2, key="once")).id == owners.id
    pool.executor.end(pool.key(owners.id), code=0)
    resumed = await pool.state(victim.id, "running", attempt=2)
    assert resumed.attempts[1].resumed_from == 5
    await pool.restart()
    pool.executor.end(pool.key(victim.id), code=0)
    await pool.state(victim.id, "succeeded")
    assert set(pool.executor.ran.values()) == {1}


async def test_a_database_that_went_away_for_a_moment_loses_nothing(pool, url):
    await pool.idle()
    if url.startswith("sqlite"):
        pool.store._writer.dispose()
    else:
        with pool.store._reader.connect() as connection:
            connection.execute(
                text(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE pid <> pg_backend_pid() AND datname = current_database()"
                )
            )
    job = await pool.submit(gpus=1)
    await pool.state(job.id, "running")


async def test_quotas_of_an_earlier_store_stay_with_its_only_type_when_another_one_joins(empty, tmp_path):
    write_earlier(empty, "0002", EARLIER)
    worlds = engine_conftest.worlds
    t4, build = worlds.node("train", 8, gpu_type="t4"), worlds.node("build", 3, worlds.Environment.BUILD)
    pool = engine_conftest.Pool(tmp_path, executor=worlds.MemoryExecutor((t4, build)), url=empty)
    await pool.start()
    assert [(of.quota, of.limit, of.by_type) for of in pool.engine.pool().projects] == [
        (4, 6, {}),
        (None, None, {}),
    ]
    pool.executor.change_nodes(t4, build, worlds.node("new", 4, gpu_type="a100"))
    for _ in range(2):
        await pool.idle()
        vision, speech = pool.engine.pool().projects
        assert {name: (of.quota, of.limit) for name, of in vision.by_type.items()} == {
            "t4": (4, 6),
            "a100": (0, None),
        }
        assert {name: of.quota for name, of in speech.by_type.items()} == {"t4": None, "a100": 0}
        assert (vision.build_quota, pool.engine.build_quota("susan", ["vision"]).held) == (1, 2)
        await pool.restart()
    await pool.stop()

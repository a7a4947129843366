"""Liveness and readiness: a pool whose store takes no writes is there, and is not ready."""

from __future__ import annotations

import errno
import os
from pathlib import Path


def set_read_only(store, state):
    connection = store._writer.raw_connection()
    connection.driver_connection.execute(f"PRAGMA query_only={state}")
    connection.close()


async def test_a_pool_at_work_is_ready(running):
    for path in ("/health", "/ready"):
        answer = await running.as_(None).get(path)
        assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


async def test_use_of_gpus_that_is_not_recorded_is_said_and_keeps_nobody_from_the_pool(running):
    store = running.pool.engine.health.store
    usage, here = running.pool.engine.usage, running.as_(None)
    job = await running.submit("susan")
    await running.until("susan", job["id"], lambda job: job["state"] == "running")
    set_read_only(store, "ON")
    await usage.record(10)
    set_read_only(store, "OFF")
    ready = await here.get("/ready")
    assert (ready.status_code, ready.json()["status"]) == (200, "ok")
    assert "readonly" in ready.json()["unrecorded"]
    assert "readonly" in (await running.as_("susan").get("/pool/gpus")).json()["unrecorded"]
    assert "springtide_usage_recorded 0.0" in (await running.as_("susan").get("/metrics")).text
    await usage.record(20)
    assert (await here.get("/ready")).json() == {"status": "ok"}
    assert "springtide_usage_recorded 1.0" in (await running.as_("susan").get("/metrics")).text


async def test_a_store_that_takes_no_writes_makes_the_pool_unready_until_it_does(running):
    store = running.pool.engine.health.store
    set_read_only(store, "ON")
    refused = await running.as_("susan").post("/jobs", json={"argv": ["true"]})
    assert refused.status_code == 503
    unready = await running.as_(None).get("/ready")
    assert (unready.status_code, unready.json()["code"]) == (503, "not_ready")
    assert "readonly" in unready.json()["message"]
    assert (await running.as_(None).get("/health")).status_code == 200
    assert "springtide_store_writable 0.0" in (await running.as_("susan").get("/metrics")).text
    set_read_only(store, "OFF")
    assert (await running.as_(None).get("/ready")).status_code == 200
    assert "springtide_store_writable 1.0" in (await running.as_("susan").get("/metrics")).text


async def test_a_store_that_was_removed_makes_the_pool_unready_until_it_is_back(running):
    store = running.pool.engine.health.store
    database = Path(store._url.database)
    away = database.rename(database.with_name("away"))
    assert (await running.as_("susan").post("/jobs", json={"argv": ["true"]})).status_code == 503
    for _ in range(2):
        unready = await running.as_(None).get("/ready")
        assert (unready.status_code, unready.json()["code"]) == (503, "not_ready")
        assert f"The store {database} was removed while the service runs" in unready.json()["message"]
    assert "springtide_store_writable 0.0" in (await running.as_("susan").get("/metrics")).text
    away.rename(database)
    assert (await running.as_(None).get("/ready")).status_code == 200
    assert (await running.as_("susan").post("/jobs", json={"argv": ["true"]})).status_code == 201


async def test_nobody_has_to_submit_a_job_until_a_removed_store_is_found(running):
    Path(running.pool.engine.health.store._url.database).unlink()
    assert (await running.as_(None).get("/ready")).status_code == 503


async def test_a_full_disk_makes_the_pool_unready_although_a_small_write_would_work(running, monkeypatch):
    def no_room(*_: object):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as full:
        full.setattr(os, "posix_fallocate", no_room)
        unready = await running.as_(None).get("/ready")
        assert unready.status_code == 503
        assert "is full" in unready.json()["message"]
    assert (await running.as_(None).get("/ready")).status_code == 200

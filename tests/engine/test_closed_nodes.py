"""Nodes that their cluster has closed: jobs, pool and metrics say so, and what is to be expected."""

from __future__ import annotations

from typing import Any

import engine_worlds as worlds
import pytest
from msgspec.structs import replace

from springtide.scheduler.model import Closure, Environment

NODES = (worlds.node("one", 4), worlds.node("two", 4), worlds.node("build", 2, Environment.BUILD))
NOON = 1_795_694_580.0


async def closed(pool: Any, closure: Closure | None, since: float | None = None) -> None:
    """Have the cluster close the node ``one``."""
    more = {"available": closure is None, "closure": closure, "closed_since": since}
    pool.executor.change_nodes(replace(NODES[0], **more), *NODES[1:])
    await pool.idle()


@pytest.fixture
async def job(pool: Any) -> str:
    """A job on both train nodes."""
    pool.executor.change_nodes(*NODES)
    await pool.idle()
    found = await pool.submit(gpus=4, workers=2)
    await pool.state(found.id, "running")
    return str(found.id)


async def test_a_job_on_a_node_that_is_not_ready_says_so_and_since_when(pool: Any, job: str) -> None:
    before = (await pool.engine.job(job)).reason
    await closed(pool, Closure.NOT_READY, NOON)
    found = await pool.engine.job(job)
    assert found.state == "running"
    assert found.reason.headline == "Node one not ready since 2026-11-26 12:03 UTC."
    assert [each.text for each in found.reason.sentences[:2]] == [
        "The node one has not been ready since 2026-11-26 12:03 UTC: what the job does there is unknown.",
        "It keeps its GPUs until it certainly runs there no longer, then runs again elsewhere.",
    ]
    assert found.reason.params["node_code"] == "node-not-ready"
    await closed(pool, None)
    assert (await pool.engine.job(job)).reason == before


@pytest.mark.parametrize(
    ("closure", "words"),
    [
        (Closure.CORDONED, "The node one is cordoned and may be drained."),
        (Closure.LEAVING, "The node one is about to be removed."),
    ],
)
async def test_a_job_says_that_its_node_is_to_be_drained(
    pool: Any, job: str, closure: Closure, words: str
) -> None:
    await closed(pool, closure)
    reason = (await pool.engine.job(job)).reason
    assert reason.sentences[0].text == words
    assert reason.headline.startswith("Running on 8 GPUs")
    assert "Node one " in reason.headline


async def test_the_view_of_a_node_has_why_it_is_closed_and_nothing_starts_there(pool: Any) -> None:
    pool.executor.change_nodes(*NODES)
    await closed(pool, Closure.NOT_READY, NOON)
    (view,) = [each for each in pool.engine.pool().nodes if each.name == "one"]
    assert (view.available, view.closure, view.closed_since) == (False, "not ready", NOON)
    (other,) = [each for each in pool.engine.pool().nodes if each.name == "two"]
    assert (other.available, other.closure, other.closed_since) == (True, "", None)

"""Project trees in the pool: who may use them, how long they are kept, and on whose account."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from springtide.scheduler.engine.settings import EngineSettings
from springtide.scheduler.project_tree import TreeFile, digest_of, pack
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.store import FilesGoneError
from springtide.scheduler.wire import ProjectTree, Trials

KIB = 1024
MakePool = Callable[..., Awaitable[Any]]


def packed_tree(seed: int, size: int = 100 * KIB) -> tuple[bytes, ProjectTree]:
    """Return a packed tree and its description."""
    packed = pack({"model.py": TreeFile(bytes([seed]) * size)}, {})
    return packed, ProjectTree(root="/home/susan/study", digest=digest_of(packed))


async def send(pool: Any, seed: int = 1, user: str = "susan") -> ProjectTree:
    packed, tree = packed_tree(seed)
    assert tree.digest is not None
    await pool.engine.send_tree(user, tree.digest, packed)
    return tree


async def test_only_who_has_sent_a_tree_may_use_it(pool: Any) -> None:
    tree = await send(pool)
    await pool.submit("susan", tree=tree)
    with pytest.raises(Refusal, match="You have sent no project tree") as refused:
        await pool.submit("joe", tree=tree)
    assert refused.value.code == "unknown_tree"
    with pytest.raises(Refusal):
        await pool.engine.tree("joe", tree.digest)
    await send(pool, user="joe")
    await pool.submit("joe", tree=tree)


async def test_a_digest_names_its_content_alone(pool: Any) -> None:
    packed, tree = packed_tree(1)
    with pytest.raises(Refusal, match="missing or changed"):
        await pool.engine.send_tree("susan", tree.digest, packed[:-1])
    broken = b"no tree"
    with pytest.raises(Refusal, match="not the packed files"):
        await pool.engine.send_tree("susan", digest_of(broken), broken)


async def test_an_attempt_gets_the_tree_unless_the_job_runs_in_place(pool: Any) -> None:
    packed, _ = packed_tree(1)
    tree = await send(pool)
    job = await pool.submit(tree=tree)
    await pool.state(job.id, "running")
    other = await pool.submit(tree=tree, in_place=True)
    await pool.state(other.id, "running")
    specs = {key.job: spec for key, spec in pool.executor.specs.items()}
    assert specs[job.id].packed == packed
    assert specs[other.id].packed == b""


async def test_trials_and_runs_again_have_the_tree_of_the_original(pool: Any) -> None:
    tree = await send(pool)
    sweep = await pool.submit(tree=tree, trials=Trials(number=2, metric="loss", parameters=[{}, {}]))
    await pool.state(f"{sweep.id}t0", "running")
    job = await pool.submit(tree=tree)
    first = await pool.engine.reruns.first(job.id)
    again = await pool.engine.reruns.submission(job.id, {}, None)
    repeated = await pool.engine.submit(again, "susan", "susan", again=first)
    await pool.state(repeated.id, "running")
    specs = {key.job: spec for key, spec in pool.executor.specs.items()}
    assert specs[f"{sweep.id}t0"].tree == specs[repeated.id].tree == tree


async def test_a_tree_counts_on_the_account_of_its_jobs_once(make_pool: MakePool) -> None:
    pool = await make_pool(settings=EngineSettings(kept_bytes_per_user=250 * KIB))
    for seed in (1, 1, 2):
        await pool.submit(tree=await send(pool, seed))
    with pytest.raises(Refusal, match="would keep"):
        await pool.submit(tree=await send(pool, 3))


async def test_the_trees_of_unfinished_jobs_are_kept_and_others_go_in_time(pool: Any) -> None:
    used, unused = await send(pool, 1), await send(pool, 2)
    await pool.submit(tree=used)
    now = pool.clock()
    pool.store.drop_bundles(float("inf"), 0, now)
    await pool.engine.tree("susan", unused.digest)
    pool.store.drop_bundles(float("inf"), 0, now + 3600.0)
    assert pool.store.content(used.digest) == packed_tree(1)[0]
    with pytest.raises(FilesGoneError):
        pool.store.content(unused.digest)
    with pytest.raises(Refusal):
        await pool.engine.tree("susan", unused.digest)


async def test_a_job_whose_tree_is_gone_is_not_run_again(pool: Any) -> None:
    job = await pool.submit(tree=await send(pool))
    await pool.state(job.id, "running")
    await pool.engine.cancel(job.id, "susan")
    await pool.state(job.id, "cancelled")
    pool.store.drop_bundles(float("inf"), 0, float("inf"))
    with pytest.raises(Refusal, match="not in the pool any more"):
        await pool.engine.reruns.submission(job.id, {}, None)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"argv": ["{project_tree}/a"]}, "no project was sent"),
        ({"tree": ProjectTree(root="study")}, "not an absolute path"),
        ({"tree": ProjectTree(root="/a", linked=("x\n",))}, "control characters"),
        ({"tree": ProjectTree(root="/a", outside=("b",))}, "not an absolute path"),
        ({"tree": ProjectTree(root="/a", outside=("/../b",))}, "not an absolute path"),
        ({"tree": ProjectTree(root="/a", outside=("/c\n",))}, "control characters"),
    ],
)
async def test_what_no_job_can_run_in_is_refused(pool: Any, fields: dict[str, Any], words: str) -> None:
    with pytest.raises(Refusal, match=words):
        await pool.submit(**fields)

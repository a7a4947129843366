"""Watches of the Kubernetes spawner: one that ended is replaced, and one that failed is not an empty cluster."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from kubespawner import KubeSpawner

from springtide.spawner import kube
from springtide.spawner.kube import KubeNotebook


class Watch:
    """A stand-in for KubeSpawner's reflectors, with the attributes that the spawner uses."""

    made = 0
    fails = False

    def __init__(self, **_: Any) -> None:
        type(self).made += 1
        self.resources: dict[str, Any] = {}
        self.first_load_future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.watch_task: asyncio.Task[None] | None = None

    pods = property(lambda self: self.resources)

    async def start(self) -> None:
        await asyncio.sleep(0.01)
        if self.fails:
            error = OSError("the cluster is away")
            self.first_load_future.set_exception(error)
            self.first_load_future.exception()
            raise error
        self.first_load_future.set_result(None)
        self.watch_task = asyncio.ensure_future(asyncio.Event().wait())  # type: ignore[arg-type]

    async def stop(self) -> None:
        if self.watch_task is not None:
            self.watch_task.cancel()


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Watch]]:
    kind = type("OneWatch", (Watch,), {"made": 0, "fails": False})
    monkeypatch.setattr(KubeSpawner, "reflectors", {})
    monkeypatch.setattr(KubeNotebook, "_reflector_locks", kube.defaultdict(asyncio.Lock))
    monkeypatch.setattr(KubeNotebook, "_reflector_failures", {})
    monkeypatch.setattr(kube, "WATCH_RETRY_S", 0.0)
    monkeypatch.setattr("kubespawner.spawner.PodReflector", kind)
    yield kind
    for one in KubeSpawner.reflectors.values():
        if one.watch_task is not None:
            one.watch_task.cancel()


@pytest.fixture
def notebook() -> KubeNotebook:
    """A notebook without a hub, sufficient to look for its pod."""
    made = KubeNotebook.__new__(KubeNotebook)
    made.namespace = "lab"
    made.pod_name = "jupyter-susan"
    made.user = SimpleNamespace(name="susan")
    return made


async def test_all_notebooks_share_one_watch(notebook: KubeNotebook, watch: type[Watch]) -> None:
    await asyncio.gather(*(notebook._start_watching_pods() for _ in range(10)))
    assert watch.made == 1


async def test_a_watch_that_gave_up_is_begun_anew(notebook: KubeNotebook, watch: type[Watch]) -> None:
    first = await notebook._start_watching_pods()
    first.watch_task.cancel()
    await asyncio.wait([first.watch_task])
    assert await notebook._start_watching_pods() is not first
    assert watch.made == 2


async def test_what_ran_is_taken_to_run_while_nobody_can_look(notebook: KubeNotebook, watch: type[Watch]) -> None:
    watch.fails = True
    assert await notebook.poll() is None
    assert KubeSpawner.reflectors == {}
    watch.fails = False
    assert await notebook.poll() == 1


async def test_a_watch_that_cannot_be_begun_anew_leaves_what_was_known(
    notebook: KubeNotebook, watch: type[Watch]
) -> None:
    first = await notebook._start_watching_pods()
    first.watch_task.cancel()
    await asyncio.wait([first.watch_task])
    watch.fails = True
    assert await notebook.poll() is None
    assert list(KubeSpawner.reflectors.values()) == [first]


async def test_a_cluster_that_is_away_is_not_asked_by_every_notebook(
    notebook: KubeNotebook, watch: type[Watch], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kube, "WATCH_RETRY_S", 1000.0)
    watch.fails = True
    assert await asyncio.gather(*(notebook.poll() for _ in range(10))) == [None] * 10
    assert watch.made == 1

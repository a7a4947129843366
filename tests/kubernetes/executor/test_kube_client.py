"""The client of the Kubernetes API against a real API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from cluster import Cluster
from faulty_api import FaultyApi

from springtide.scheduler.kube import (
    LEASES,
    NAMESPACES,
    SERVICES,
    Api,
    ApiError,
    Lease,
    LeaseLostError,
    Mirror,
    Resource,
    api,
    connect,
)
from springtide.scheduler.kube.connect import ConfiguredLogin

CONFIG_MAPS = Resource("", "v1", "configmaps")


def config(name: str, **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels}, "data": {"n": "1"}}


@pytest.fixture
async def client(cluster: Cluster) -> AsyncIterator[Api]:
    client = connect(cluster.kubeconfig)
    yield client
    await client.close()


async def test_objects_are_made_read_changed_and_deleted(client: Api, namespace: str) -> None:
    made = await client.create(CONFIG_MAPS, namespace, config("one"))
    uid = made["metadata"]["uid"]
    patched = await client.patch(CONFIG_MAPS, namespace, "one", {"data": {"n": None, "m": "2"}}, uid=uid)
    assert patched["data"] == {"m": "2"}
    replaced = await client.replace(CONFIG_MAPS, namespace, "one", {**patched, "data": {"k": "3"}})
    assert (await client.get(CONFIG_MAPS, namespace, "one"))["data"] == replaced["data"] == {"k": "3"}
    await client.delete(CONFIG_MAPS, namespace, "one", uid=uid)
    with pytest.raises(ApiError) as missing:
        await client.get(CONFIG_MAPS, namespace, "one")
    assert (missing.value.status, missing.value.reason) == (404, "NotFound")


async def test_refusals_say_what_is_wrong(client: Api, namespace: str) -> None:
    made = await client.create(CONFIG_MAPS, namespace, config("one"))
    with pytest.raises(ApiError) as exists:
        await client.create(CONFIG_MAPS, namespace, config("one"))
    assert (exists.value.status, exists.value.reason, exists.value.passing) == (409, "AlreadyExists", False)
    await client.patch(CONFIG_MAPS, namespace, "one", {"data": {"n": "2"}})
    with pytest.raises(ApiError) as conflict:
        await client.replace(CONFIG_MAPS, namespace, "one", made)
    assert (conflict.value.status, conflict.value.reason) == (409, "Conflict")
    for act in (
        client.delete(CONFIG_MAPS, namespace, "one", uid="another"),
        client.patch(CONFIG_MAPS, namespace, "one", {"data": {}}, uid="another"),
    ):
        with pytest.raises(ApiError) as other:
            await act
        assert other.value.status in (409, 422)
    with pytest.raises(ApiError) as invalid:
        await client.create(SERVICES, namespace, {"metadata": {"name": "Not A Name"}})
    assert invalid.value.status == 422
    assert "Not A Name" in invalid.value.message


async def test_long_lists_come_whole(client: Api, namespace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "PAGE", 3)
    names = [f"c{number:02}" for number in range(10)]
    await asyncio.gather(
        *(client.create(CONFIG_MAPS, namespace, config(name, odd=str(int(name[1:]) % 2))) for name in names)
    )
    found, version = await client.list(CONFIG_MAPS, namespace, labels="odd")
    assert [each["metadata"]["name"] for each in found] == names
    assert int(version) > 0
    odd, _ = await client.list(CONFIG_MAPS, namespace, labels="odd=1")
    assert len(odd) == 5


async def test_a_mirror_tells_every_difference_once(client: Api, namespace: str) -> None:
    told: list[tuple[str, str]] = []

    def changed(before: dict[str, Any] | None, after: dict[str, Any] | None) -> None:
        what = "new" if before is None else "gone" if after is None else "changed"
        told.append((what, (after or before or {})["metadata"]["name"]))

    async def until_told(what: tuple[str, str]) -> None:
        async with asyncio.timeout(30):
            while what not in told:
                await asyncio.sleep(0.02)

    await client.create(CONFIG_MAPS, namespace, config("there", mine="yes"))
    await client.create(CONFIG_MAPS, namespace, config("foreign"))
    mirror = Mirror(client, CONFIG_MAPS, namespace, labels="mine=yes", changed=changed)
    await mirror.start()
    assert mirror.fresh
    assert told == [("new", "there")]
    await client.create(CONFIG_MAPS, namespace, config("later", mine="yes"))
    await until_told(("new", "later"))
    await client.patch(CONFIG_MAPS, namespace, "later", {"data": {"n": "2"}})
    await until_told(("changed", "later"))
    assert mirror.items[namespace, "later"]["data"] == {"n": "2"}
    await client.patch(CONFIG_MAPS, namespace, "later", {"metadata": {"labels": None}})
    await until_told(("gone", "later"))
    await client.delete(CONFIG_MAPS, namespace, "there")
    await until_told(("gone", "there"))
    assert dict(mirror.items) == {}
    await mirror.stop()


async def test_a_mirror_finds_what_it_missed_when_its_watch_became_too_old(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    async with FaultyApi(cluster, tmp_path / "kubeconfig") as faults:
        client = Api(ConfiguredLogin(faults.kubeconfig), watch=3, silence=5)
        for name in ("stays", "goes"):
            await client.create(CONFIG_MAPS, namespace, config(name, mine="yes"))
        mirror = Mirror(client, CONFIG_MAPS, namespace, labels="mine=yes")
        await mirror.start()
        faults.mute = True
        await client.delete(CONFIG_MAPS, namespace, "goes")
        await client.create(CONFIG_MAPS, namespace, config("comes", mine="yes"))
        faults.expire()
        faults.mute = False
        async with asyncio.timeout(30):
            while {name for _, name in mirror.items} != {"stays", "comes"}:
                await asyncio.sleep(0.05)
        await mirror.stop()
        await client.close()


async def test_a_mirror_knows_how_long_it_has_heard_nothing(client: Api, namespace: str) -> None:
    now = 100.0
    mirror = Mirror(client, CONFIG_MAPS, namespace, clock=lambda: now)
    assert not mirror.fresh
    await mirror.start()
    assert (mirror.fresh, mirror.seconds_since_event) == (True, 0.0)
    await mirror.stop()
    now += 61
    assert (mirror.fresh, mirror.seconds_since_event) == (False, 61.0)


async def test_a_cluster_that_is_not_there_is_told_apart(tmp_path: Path) -> None:
    nowhere = connect(tmp_path / "none")
    with pytest.raises(ApiError, match="cannot be found") as missing:
        await nowhere.list(NAMESPACES)
    assert missing.value.status == 0
    outside = connect(None)
    with pytest.raises(ApiError, match="environment of a pod"):
        await outside.list(NAMESPACES)


async def test_a_lease_is_held_by_one_and_passed_on(client: Api, namespace: str) -> None:
    first = Lease(client, namespace, "service", "one", duration=4.0)
    await first.acquire()
    waiting: list[str] = []
    second = Lease(client, namespace, "service", "two", duration=4.0)
    other = asyncio.create_task(second.acquire(waiting.append))
    keeping = asyncio.create_task(first.keep())
    await asyncio.sleep(5.0)
    assert not other.done()
    assert waiting == ["one"]
    keeping.cancel()
    await asyncio.gather(keeping, return_exceptions=True)
    await first.release()
    async with asyncio.timeout(30):
        await other
    assert (await client.get(LEASES, namespace, "service"))["spec"]["holderIdentity"] == "two"
    with pytest.raises(LeaseLostError, match="another service"):
        async with asyncio.timeout(30):
            await first.keep()


async def test_a_lease_whose_holder_died_is_taken_over(client: Api, namespace: str) -> None:
    await Lease(client, namespace, "service", "dead", duration=1.0).acquire()
    heir = Lease(client, namespace, "service", "heir", duration=1.0)
    async with asyncio.timeout(30):
        await heir.acquire()
    spec = (await client.get(LEASES, namespace, "service"))["spec"]
    assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("heir", 1)


async def test_a_lease_that_was_deleted_is_lost(client: Api, namespace: str) -> None:
    lease = Lease(client, namespace, "service", "one", duration=1.0)
    await lease.acquire()
    await client.delete(LEASES, namespace, "service")
    with pytest.raises(LeaseLostError, match="deleted"):
        async with asyncio.timeout(30):
            await lease.keep()

"""The client of the Kubernetes API against a real API server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from clusters.cluster import Cluster
from clusters.faulty_api import FaultyApi
from patience import PATIENCE_S

from springtide.scheduler.kube import (
    LEASES,
    SERVICES,
    Api,
    ApiError,
    Informer,
    Lease,
    LeaseLostError,
    Resource,
    api,
    connect,
)

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
    assert (exists.value.status, exists.value.reason, exists.value.transient) == (409, "AlreadyExists", False)
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


async def test_an_informer_tells_every_difference_once(client: Api, namespace: str) -> None:
    told: list[tuple[str, str]] = []

    def changed(before: dict[str, Any] | None, after: dict[str, Any] | None) -> None:
        what = "new" if before is None else "gone" if after is None else "changed"
        told.append((what, (after or before or {})["metadata"]["name"]))

    async def until_told(what: tuple[str, str]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while what not in told:
                await asyncio.sleep(0.02)

    await client.create(CONFIG_MAPS, namespace, config("there", mine="yes"))
    await client.create(CONFIG_MAPS, namespace, config("foreign"))
    informer = Informer(client, CONFIG_MAPS, namespace, labels="mine=yes", on_change=changed)
    await informer.start()
    assert informer.fresh
    assert told == [("new", "there")]
    await client.create(CONFIG_MAPS, namespace, config("later", mine="yes"))
    await until_told(("new", "later"))
    await client.patch(CONFIG_MAPS, namespace, "later", {"data": {"n": "2"}})
    await until_told(("changed", "later"))
    assert informer.items[namespace, "later"]["data"] == {"n": "2"}
    await client.patch(CONFIG_MAPS, namespace, "later", {"metadata": {"labels": None}})
    await until_told(("gone", "later"))
    await client.delete(CONFIG_MAPS, namespace, "there")
    await until_told(("gone", "there"))
    assert dict(informer.items) == {}
    await informer.stop()


async def test_an_informer_finds_what_it_missed_when_its_watch_became_too_old(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    async with FaultyApi(cluster, tmp_path / "kubeconfig") as faults:
        client = connect(faults.kubeconfig, watch_seconds=3, watch_overdue=5)
        for name in ("stays", "goes"):
            await client.create(CONFIG_MAPS, namespace, config(name, mine="yes"))
        informer = Informer(client, CONFIG_MAPS, namespace, labels="mine=yes")
        await informer.start()
        faults.mute = True
        await client.delete(CONFIG_MAPS, namespace, "goes")
        await client.create(CONFIG_MAPS, namespace, config("comes", mine="yes"))
        faults.expire()
        faults.mute = False
        async with asyncio.timeout(PATIENCE_S):
            while {name for _, name in informer.items} != {"stays", "comes"}:
                await asyncio.sleep(0.05)
        await informer.stop()
        await client.close()


async def test_an_informer_is_fresh_again_as_soon_as_a_server_that_was_silent_answers(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    async with FaultyApi(cluster, tmp_path / "kubeconfig") as faults:
        client = connect(faults.kubeconfig, watch_seconds=1, watch_overdue=1)
        informer = Informer(client, CONFIG_MAPS, namespace, labels="mine=yes")
        await informer.start()
        faults.mute = True  # watches open, and tell nothing
        await client.create(CONFIG_MAPS, namespace, config("comes", mine="yes"))
        async with asyncio.timeout(PATIENCE_S):
            while (namespace, "comes") not in informer.items:
                await asyncio.sleep(0.05)
        assert informer.fresh
        await informer.stop()
        await client.close()


async def test_an_informer_knows_how_long_it_has_heard_nothing(client: Api, namespace: str) -> None:
    now = 100.0
    informer = Informer(client, CONFIG_MAPS, namespace, clock=lambda: now)
    assert not informer.fresh
    await informer.start()
    assert (informer.fresh, informer.seconds_since_event) == (True, 0.0)
    await informer.stop()
    now += 61
    assert (informer.fresh, informer.seconds_since_event) == (False, 61.0)


def lease(client: Api, namespace: str, holder: str, clock: Callable[[], float], duration: float = 15.0) -> Lease:
    return Lease(client, namespace, "service", holder, duration=duration, clock=clock)


async def test_a_lease_that_is_renewed_is_held_by_one_for_as_long_as_that(client: Api, namespace: str) -> None:
    now = 0.0
    first, second = (lease(client, namespace, holder, lambda: now) for holder in ("one", "two"))
    assert await first.try_acquire() is None
    for _ in range(10):
        assert await second.try_acquire() == "one"
        now += 14
        assert await first.renew()
    assert await second.try_acquire() == "one"
    spec = (await client.get(LEASES, namespace, "service"))["spec"]
    assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("one", 0)


async def test_a_lease_that_is_not_renewed_is_taken_over_and_lost_to_its_holder(
    client: Api, namespace: str
) -> None:
    now = 0.0
    dead, heir = (lease(client, namespace, holder, lambda: now) for holder in ("dead", "heir"))
    assert await dead.try_acquire() is None
    assert await heir.try_acquire() == "dead"
    now += 14.9
    assert await heir.try_acquire() == "dead"
    now += 0.1
    assert await heir.try_acquire() is None
    spec = (await client.get(LEASES, namespace, "service"))["spec"]
    assert (spec["holderIdentity"], spec["leaseTransitions"]) == ("heir", 1)
    with pytest.raises(LeaseLostError, match="another service"):
        await dead.renew()


async def test_a_lease_whose_age_is_unknown_is_not_taken_at_first_sight(client: Api, namespace: str) -> None:
    """The times in the object are from another clock and do not count, only the changes that are seen."""
    dead = Lease(client, namespace, "service", "dead", now=lambda: 0.0)
    await dead.acquire()
    assert await lease(client, namespace, "heir", lambda: 1e9).try_acquire() == "dead"


async def test_a_lease_that_is_given_up_is_taken_at_once(client: Api, namespace: str) -> None:
    first, second = (lease(client, namespace, holder, lambda: 0.0) for holder in ("one", "two"))
    await first.acquire()
    assert await second.try_acquire() == "one"
    await first.release()
    assert await second.try_acquire() is None


async def test_who_waits_for_a_lease_is_told_for_whom_once_and_gets_it(client: Api, namespace: str) -> None:
    first = Lease(client, namespace, "service", "one", duration=1.0)
    await first.acquire()
    waiting: list[str] = []
    second = Lease(client, namespace, "service", "two", duration=1.0)
    async with asyncio.timeout(PATIENCE_S):
        await second.acquire(waiting.append)
    assert waiting == ["one"]


async def test_a_lease_that_was_deleted_is_lost(client: Api, namespace: str) -> None:
    held = Lease(client, namespace, "service", "one", duration=6.0)
    await held.acquire()
    await client.delete(LEASES, namespace, "service")
    with pytest.raises(LeaseLostError, match="deleted"):
        async with asyncio.timeout(PATIENCE_S):
            await held.renew_until_lost()


async def test_a_lease_is_lost_when_it_expires_although_a_request_for_it_hangs(
    client: Api, cluster: Cluster, namespace: str
) -> None:
    held = Lease(client, namespace, "service", "one", duration=1.0)
    await held.acquire()
    with cluster.frozen(), pytest.raises(LeaseLostError, match="could not be renewed for 1 s"):
        async with asyncio.timeout(PATIENCE_S):
            await held.renew_until_lost()

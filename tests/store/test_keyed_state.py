"""Keyed state: records of each table come back, are replaced and removed; transactions see their own changes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from springtide.scheduler import wire
from springtide.scheduler.budgets import BeyondBudget, BudgetUnit
from springtide.scheduler.model import Project, RecentUse
from springtide.scheduler.notifications import NotificationChoice, NotificationEvent
from springtide.scheduler.repeats import Repeat
from springtide.scheduler.store import Store
from springtide.scheduler.store.keyed import Overlay, Overlays, Table
from springtide.scheduler.store.ledger import FactKind, Held, Holding, Piece, PoolFact
from springtide.scheduler.store.queries import reading
from springtide.scheduler.store.records import WriteBatch
from springtide.scheduler.store.tables import (
    TABLES,
    BookingRecord,
    BudgetRecord,
    ChangeRequestRecord,
    DefaultProject,
    DeletedJob,
    DrainRecord,
    Ending,
    EndingKind,
    FreezeRecord,
    GpuDrainRecord,
    HubGroup,
    HubStanding,
    HubUser,
    IdleRecord,
    IdleRuleRecord,
    IdleWhileWaiting,
    JobRanges,
    MonthlyReport,
    NeedRecord,
    PersonRecord,
    PresetRecord,
    ProjectRecord,
    RequestState,
    RuleScope,
    Tables,
    WorkspaceRecord,
)

RESEARCH = ProjectRecord(Project("research", quota=None, limit=8, age=0, build_quota=1), colour=0)
VISION = ProjectRecord(
    Project("vision", "research", {"t4": 2, "a100": None}, 4, 1.5, 50, 1, 2),
    version=3,
    colour=1,
    made_group=True,
    ranges=JobRanges(10, 60, 4, 3600.0, ("lab/*",)),
)
DESK = WorkspaceRecord("susan", "", "build", (0, 2), 100.0, "l4", ("GPU-0", "GPU-2"))
SHARE = Held("vision", "susan", "training", "t4", {"train": 2, "other": 1}, 1, 0.25)
ADDRESSES = {"webhook": "https://x"}
EVENTS = {"email": frozenset({NotificationEvent.FAILED, NotificationEvent.ENDED})}

MORE = wire.ProjectWanted(project="vision", edit=wire.ProjectEdit(quota={"t4": 2, "a100": None}, until=9.5))
OWN, LESS = (wire.BuildWanted(edit=wire.PersonEdit(build_quota=gpus)) for gpus in (4, 2))
WEEKENDS = Repeat((5, 6), "20:00", "08:00", "Europe/Berlin")

SAMPLES: dict[Table[Any, Any], tuple[Any, Any]] = {
    Tables.projects: (RESEARCH, VISION),
    Tables.people: (PersonRecord("susan", {"l4": 2, "t4": None}), PersonRecord("joe", 0)),
    Tables.default_projects: (DefaultProject("susan", "vision"), DefaultProject("joe", "research")),
    Tables.notification_choices: (
        NotificationChoice("susan", EVENTS, ADDRESSES),
        NotificationChoice("joe"),
    ),
    Tables.workspaces: (DESK, replace(DESK, server="täst 🌊", gpus=(), uuids=())),
    Tables.idle_rules: (
        IdleRuleRecord(RuleScope.POOL, "", 60.0, None),
        IdleRuleRecord(RuleScope.PERSON, "joe", None, None),
    ),
    Tables.idle_records: (
        IdleRecord("susan", "", 1.0, 2, told=2.5, unused=3.0),
        IdleRecord("susan", "b", 1.0, 0, stops=4.0),
    ),
    Tables.drains: (
        DrainRecord("build", "admin", 1.5, "a fan", True),
        DrainRecord("train", "admin", 2.0, until=3.5, booking=7),
    ),
    Tables.bookings: (
        BookingRecord(7, "admin", 1.5, 9.0, "a fan", ("n1", "n2"), begun=True),
        BookingRecord(
            8, "admin", 1.5, 9.0, project="vision", gpus={"t4": 2}, lends={"speech": 1}, repeats=WEEKENDS
        ),
    ),
    Tables.gpu_drains: (GpuDrainRecord("GPU-0", "admin", 1.5), GpuDrainRecord("GPU-1", "admin", 1.5, "1", True)),
    Tables.freezes: (
        FreezeRecord("vision", "admin", 1.5, "a review", True, 9.5),
        FreezeRecord("speech", "lead", 2.0),
    ),
    Tables.budgets: (
        BudgetRecord(
            "vision", 1200.0, BudgetUnit.MONEY, BeyondBudget.NO_BORROWING, "admin", 1.5, "2026-11", 2.0, 4.5
        ),
        BudgetRecord("speech", 80.5, BudgetUnit.GPU_HOURS, BeyondBudget.LAST, "admin", 2.5, told=80),
    ),
    Tables.presets: (
        PresetRecord(
            "vision", "small", "One GPU.", {"gpus": 1, "gpu_types": ["t4"], "env": {"A": "1"}}, "lead", 1.5
        ),
        PresetRecord("", "täst-🌊", "", {"time_limit": 7200.0}, "admin", 2.5),
    ),
    Tables.endings: (
        Ending(EndingKind.QUOTA, "vision", 9.5, "admin", {"t4": 2, "a100": None}),
        Ending(EndingKind.LIMIT, "vision", 9.5, "admin", None, "It does not fit.", 10.5),
    ),
    Tables.hub_users: (HubUser("susan", "2026"), HubUser("joe", "2027", HubStanding.LEFT)),
    Tables.hub_groups: (HubGroup("vision", ("joe", "susan"), ("lena",)), HubGroup("research", ())),
    Tables.deleted_jobs: (DeletedJob("a", 2.0, 1.0, ("a", "at1")), DeletedJob("b", 3.0, 2.5, ())),
    Tables.holdings: (
        Holding("job1", 2, "", "", 0.0, 7.5, (Piece(1.5, SHARE), Piece(2.5, structs.replace(SHARE, borrowed=0)))),
        Holding("", 0, "susan", "täst 🌊", 100.0, None, (Piece(100.0, SHARE),)),
    ),
    Tables.pool_facts: (
        PoolFact(FactKind.QUOTA, "vision", "a100", None, 1.5),
        PoolFact(FactKind.PRICE, "", "t4", 0.5, 2.5),
    ),
    Tables.needs: (
        NeedRecord("drain.GPU-0.5", "drain", 1.5, "The GPU 0 of “train” is drained."),
        NeedRecord("job.a.1", "job", 2.5, "täst 🌊", "susan", "a", 3.0, 4.0, "admin", 5.0, "admin"),
    ),
    Tables.change_requests: (
        ChangeRequestRecord(7, "susan", MORE, "a deadline", 1.5, 9.5),
        ChangeRequestRecord(
            8, "joe", OWN, "täst 🌊", 2.5, 9.5, RequestState.APPROVED, 3.5, "admin", "until Friday", LESS
        ),
    ),
    Tables.monthly_reports: (MonthlyReport("2026-10", 1.5), MonthlyReport("2026-11", 2.5, empty=True)),
    Tables.idle_while_waiting: (IdleWhileWaiting(86_400, "t4", 1.5), IdleWhileWaiting(172_800, "", 0.0)),
    Tables.recent_use: (RecentUse("vision", "t4", True, 1.5, 2, 3.0), RecentUse("vision")),
}


def test_every_table_is_tried() -> None:
    assert set(SAMPLES) == set(TABLES)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.sql.name)
def test_records_come_back_are_replaced_and_can_go(
    url: str, open_store: Callable[..., Store], table: Table[Any, Any]
) -> None:
    store, (one, other) = open_store(url), SAMPLES[table]
    _commit(store, table, table.by_key([one, other]))
    assert store.read(reading.load).records[table] == {table.key(one): one, table.key(other): other}
    _commit(store, table, {table.key(one): one, table.key(other): None})
    store.close()
    assert open_store(url).read(reading.load).records[table] == {table.key(one): one}


def test_a_record_with_the_same_key_is_replaced(store: Store) -> None:
    _commit(store, Tables.workspaces, Tables.workspaces.by_key([DESK]))
    moved = replace(DESK, node="other", gpus=(1,))
    _commit(store, Tables.workspaces, Tables.workspaces.by_key([moved]))
    assert list(store.read(reading.load).workspaces.values()) == [moved]


def test_thousands_of_records_are_written_at_once(store: Store) -> None:
    desks = [replace(DESK, server=str(number)) for number in range(3_000)]
    _commit(store, Tables.workspaces, Tables.workspaces.by_key(desks))
    _commit(store, Tables.workspaces, dict.fromkeys(map(Tables.workspaces.key, desks[1:])))
    assert list(store.read(reading.load).workspaces.values()) == desks[:1]


def test_projects_are_in_the_order_of_their_age(store: Store) -> None:
    _commit(store, Tables.projects, Tables.projects.by_key([VISION, RESEARCH]))
    assert list(store.read(reading.load).projects) == ["research", "vision"]
    overlay = Overlay(Tables.projects, {"vision": VISION})
    overlay.put(RESEARCH)
    assert list(overlay) == list(overlay.after()) == ["research", "vision"]


def _commit(store: Store, table: Table[Any, Any], changes: Any) -> None:
    store.commit(WriteBatch(records={table: changes}))


# ---------- overlays

FAN = DrainRecord("a", "admin", 1.0, "a fan")
HEAT = DrainRecord("b", "admin", 2.0, "heat")


def drains(*records: DrainRecord) -> Overlay[str, DrainRecord]:
    """Return the overlay of an unchanged transaction."""
    return Overlay(Tables.drains, Tables.drains.by_key(records))


def shown(overlay: Overlay[str, DrainRecord]) -> tuple[Sequence[str], Sequence[DrainRecord], int]:
    """Return all that is seen through an overlay."""
    assert list(overlay.items()) == [(key, overlay[key]) for key in overlay]
    return list(overlay), list(overlay.values()), len(overlay)


def test_changes_are_seen_at_once() -> None:
    overlay = drains(FAN)
    overlay.put(HEAT)
    overlay.remove("a")
    assert shown(overlay) == (["b"], [HEAT], 1)
    assert ("a" in overlay, overlay.get("a"), overlay.get("b")) == (False, None, HEAT)
    with pytest.raises(KeyError):
        overlay["a"]
    overlay.put(FAN)
    assert shown(overlay) == (["a", "b"], [FAN, HEAT], 2)


def test_changes_leave_what_was_committed_as_it_is() -> None:
    committed = Tables.drains.by_key([FAN])
    overlay = Overlay(Tables.drains, committed)
    overlay.put(replace(FAN, why="heat"))
    overlay.remove("a")
    assert (committed, overlay.after(), overlay.changes) == ({"a": FAN}, {}, {"a": None})


def test_what_is_not_there_is_removed_without_a_change() -> None:
    overlay = drains(FAN)
    overlay.remove("b")
    assert (overlay.changes, overlay.version) == ({}, 0)


def test_records_of_people_follow_their_names() -> None:
    quotas = Overlay(Tables.people, Tables.people.by_key([PersonRecord("susan", 2), PersonRecord("ann", 3)]))
    quotas.rename("susan", "ann")
    assert dict(quotas) == {"ann": PersonRecord("ann", 2)}
    quotas.rename("joe", "ann")
    assert dict(quotas) == {}


def test_what_is_tried_in_a_copy_leaves_the_overlays_as_they_were() -> None:
    overlays = Overlays({table: {} for table in TABLES})
    overlays[Tables.drains].put(FAN)
    copy = overlays.copy()
    copy[Tables.drains].put(HEAT)
    copy[Tables.people].put(PersonRecord("susan", 2))
    assert [overlay.changes for overlay in overlays.changed()] == [{"a": FAN}]
    assert len(copy.changed()) == 2

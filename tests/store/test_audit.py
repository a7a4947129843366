"""Entries of the audit trail are chosen by who, what, project and time."""

from __future__ import annotations

from springtide.scheduler.store import Store
from springtide.scheduler.store.queries import reading
from springtide.scheduler.store.records import AuditQuery, AuditRecord, WriteBatch


def entry(number: int, who: str, what: str, project: str = "") -> AuditRecord:
    return AuditRecord(number, float(number), who, what, f"s{number}", {}, {}, project=project)


ENTRIES = [
    entry(1, "ann", "project.create", "vision"),
    entry(2, "ann", "job.hold", "vision"),
    entry(3, "bob", "job.hold", "speech"),
    entry(4, "bob", "job_.hold", "speech"),
    entry(5, "bob", "undo.project.change", "vision"),
    entry(6, "ann", "node.drain"),
]


def chosen(store: Store, before: int | None = None, limit: int = 10, **query: object) -> list[int]:
    found = store.read(reading.audit, AuditQuery(**query), before, limit)  # type: ignore[arg-type]
    return [record.id for record in found]


def test_entries_are_chosen(store: Store) -> None:
    store.commit(WriteBatch(audit=ENTRIES))
    assert chosen(store) == [6, 5, 4, 3, 2, 1]
    assert chosen(store, who="ann") == [6, 2, 1]
    assert chosen(store, what="job") == [3, 2]
    assert chosen(store, what="job.hold") == [3, 2]
    assert chosen(store, what="project") == [5, 1]
    assert chosen(store, what="project.change") == [5]
    assert chosen(store, what="hold") == [4, 3, 2]
    assert chosen(store, what="change") == [5]
    assert chosen(store, what="rain") == []
    assert chosen(store, project="speech") == [4, 3]
    assert chosen(store, visible=("vision",), what="job") == [2]
    assert chosen(store, visible=()) == []
    assert chosen(store, start=2.0, end=5.0) == [4, 3, 2]
    assert chosen(store, before=5, limit=2, project="vision") == [2, 1]
    assert store.read(reading.audit, AuditQuery(project="speech"), None, 1)[0].project == "speech"

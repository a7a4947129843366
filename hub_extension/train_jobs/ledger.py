"""The known state of every train job, with an index for each event that may concern some of them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, MutableMapping
from dataclasses import dataclass, field
from typing import Any

from springtide.hub_extension.train_jobs.cluster import deleting
from springtide.hub_extension.train_jobs.kinds import Kind, kind_of
from springtide.hub_extension.train_jobs.owner import Owner
from springtide.scheduler import wire
from springtide.scheduler.kube import Object
from springtide.scheduler.model import JobState
from springtide.scheduler.refusal import Refusal


@dataclass(slots=True, eq=False)
class Entry:
    """One train job: the object as last seen, and its job or why it has none.

    ``gone`` is true once the object is no longer in the cluster, ``missed`` if events of its job may have been
    missed, ``left`` if its namespace leaves it to another pool. ``wrote_at`` is the time of its last status write,
    ``convert_at`` that of the next try to convert it, in seconds of a monotonic clock.
    """

    uid: str
    namespace: str
    name: str
    object: Object
    owner: Owner | None = None
    job: wire.Job | None = None
    refusal: Refusal | None = None
    gone: bool = False
    missed: bool = False
    left: bool = False
    wrote_at: float = float("-inf")
    convert_at: float = float("-inf")

    def see(self, found: Object) -> None:
        """Store the object of an answer or a watch, unless a later version is known."""
        versions = (found["metadata"]["resourceVersion"], self.object["metadata"]["resourceVersion"])
        if not all(map(str.isdigit, versions)) or int(versions[0]) > int(versions[1]):
            self.object = found

    @property
    def kind(self) -> Kind:
        """The kind of the object."""
        return kind_of(self.object)

    @property
    def metadata(self) -> dict[str, Any]:
        """The object's metadata."""
        found: dict[str, Any] = self.object["metadata"]
        return found

    @property
    def status(self) -> dict[str, Any]:
        """The object's status, as it is in the cluster."""
        return self.object.get("status") or {}

    @property
    def generation(self) -> int:
        """The generation of the spec."""
        return int(self.metadata.get("generation", 1))

    @property
    def deleting(self) -> bool:
        """Whether deletion of the object was requested."""
        return deleting(self.metadata)

    @property
    def refused_as(self) -> str:
        """The code of its refusal, empty if it is not refused."""
        return "" if self.refusal is None else self.refusal.code

    @property
    def ended(self) -> bool:
        """Whether its job has ended."""
        return self.job is not None and JobState(self.job.state).final


@dataclass(slots=True)
class Ledger:
    """All entries by uid, by job, and, for those without a job, by the event that may admit them."""

    entries: dict[str, Entry] = field(default_factory=dict)
    by_job: dict[str, Entry] = field(default_factory=dict)
    of_namespace: dict[str, dict[str, None]] = field(default_factory=dict)
    of_pool: dict[str, None] = field(default_factory=dict)
    of_user: dict[str, OrderedDict[str, None]] = field(default_factory=dict)
    of_all: OrderedDict[str, None] = field(default_factory=OrderedDict)
    of_name: dict[tuple[str, str], Entry] = field(default_factory=dict)

    def job(self, entry: Entry, job: wire.Job) -> None:
        """Store the entry's job after it was found or changed; ignore versions older than the known one."""
        known = entry.job
        if known is not None and (JobState(known.state).final or job.attempt < known.attempt):
            return
        self.unrefuse(entry)
        entry.job = job
        if JobState(job.state).final:
            self.by_job.pop(job.id, None)
        else:
            self.by_job[job.id] = entry

    def refuse(self, entry: Entry, refusal: Refusal) -> None:
        """Record that the entry was refused, and which events may change that."""
        self.unrefuse(entry)
        entry.refusal = refusal
        user = entry.owner.user if entry.owner is not None else ""
        match refusal.code:
            case "no_project" | "two_owners" | "forbidden" | "unvouched" | "name_taken":
                self.of_namespace.setdefault(entry.namespace, {})[entry.uid] = None
            case "unknown_project" | "no_quota":
                self.of_namespace.setdefault(entry.namespace, {})[entry.uid] = None
                self.of_pool[entry.uid] = None
            case "no_gpus" | "invalid":
                self.of_pool[entry.uid] = None
            case "too_many_jobs":
                self.of_user.setdefault(user, OrderedDict())[entry.uid] = None
            case "queue_full":
                self.of_all[entry.uid] = None
            case _:
                pass

    def leave(self, entry: Entry) -> None:
        """Record that the entry is another pool's, as long as its namespace says so."""
        self.unrefuse(entry)
        entry.left = True
        self.of_namespace.setdefault(entry.namespace, {})[entry.uid] = None

    def unrefuse(self, entry: Entry) -> None:
        """Record that the entry has to be checked again."""
        entry.refusal = None
        entry.left = False
        self.of_pool.pop(entry.uid, None)
        self.of_all.pop(entry.uid, None)
        user = entry.owner.user if entry.owner is not None else ""
        _take_out(self.of_namespace, entry.namespace, entry.uid)
        _take_out(self.of_user, user, entry.uid)

    def hand_over(self, entry: Entry) -> None:
        """Record that the entry's job is another object's now."""
        if entry.job is not None:
            self.by_job.pop(entry.job.id, None)
            entry.job = None

    def wait_for_name(self, entry: Entry) -> None:
        """Record that the entry waits for what becomes of the TrainJob of its name."""
        self.of_name[entry.namespace, entry.name] = entry

    def wait_no_more(self, entry: Entry) -> None:
        """Record that the entry waits for no TrainJob."""
        if self.of_name.get((entry.namespace, entry.name)) is entry:
            del self.of_name[entry.namespace, entry.name]

    def drop(self, entry: Entry) -> None:
        """Forget the train job and its job."""
        self.unrefuse(entry)
        self.wait_no_more(entry)
        self.entries.pop(entry.uid, None)
        if entry.job is not None:
            self.by_job.pop(entry.job.id, None)

    def refused_in(self, namespace: str) -> list[Entry]:
        """Return the entries that were refused, or left alone, because of their namespace."""
        return self._all(self.of_namespace.get(namespace, ()))

    def refused_for_name(self, namespace: str, name: str) -> list[Entry]:
        """Return the entries that were refused because another train job has their name."""
        there = self.refused_in(namespace)
        return [each for each in there if each.name == name and each.refused_as == "name_taken"]

    def refused_by_pool(self) -> list[Entry]:
        """Return the entries that other projects, quotas or nodes may make possible."""
        return self._all(self.of_pool)

    def refused(self) -> list[Entry]:
        """Return the entries that may be accepted without a change in the cluster."""
        return self._all(uid for uids in (self.of_pool, self.of_all, *self.of_user.values()) for uid in uids)

    def next_after(self, user: str) -> list[Entry]:
        """Return the entries to try after a job of this user has ended: one of the user's, and one of all."""
        firsts = (next(iter(waiting), None) for waiting in (self.of_user.get(user, ()), self.of_all))
        return self._all(uid for uid in firsts if uid is not None)

    def _all(self, uids: Iterable[str]) -> list[Entry]:
        return [self.entries[uid] for uid in uids]


def _take_out(index: MutableMapping[str, Any], key: str, uid: str) -> None:
    if key in index:
        index[key].pop(uid, None)
        if not index[key]:
            del index[key]

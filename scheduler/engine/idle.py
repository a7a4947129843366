"""Idle workspaces of a running pool: reports of notebook servers, the rules, and their effects."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from enum import Enum, auto
from typing import Any

from springtide.scheduler import wire
from springtide.scheduler.engine.settings import IdleSettings
from springtide.scheduler.engine.state.endings import (
    ENDS,
    check_until,
    end_at,
    ends_again,
    recorded_ends,
    until_of,
)
from springtide.scheduler.engine.state.state import State
from springtide.scheduler.engine.state.transaction import Transaction
from springtide.scheduler.model import Project
from springtide.scheduler.refusal import Refusal, unknown_project
from springtide.scheduler.store.tables import (
    POOL,
    EndingKey,
    EndingKind,
    IdleRecord,
    IdleRule,
    IdleRuleRecord,
    RuleKey,
    RuleScope,
    WorkspaceKey,
    WorkspaceRecord,
)
from springtide.scheduler.wording import given

NEVER = IdleRule()
"""The rule without notifications and stops."""


STOPPED_SHOWN = 7 * 86_400.0
"""Time for which owners are shown that a workspace was stopped, unless they start it again, in seconds."""
STOPPING = 60.0
"""Time for which a workspace counts as being stopped after the hub was asked to, in seconds."""
SHORTEST_REPORT = 1.0
LONGEST_REPORT = 60.0
"""Minimum and maximum interval between two reports of a notebook server, in seconds."""
REPORT_KNOWN = 3 * LONGEST_REPORT
"""Age up to which a report says how a workspace is used, in seconds."""


class Step(Enum):
    """The next step for a workspace."""

    NOTHING = auto()
    TELL = auto()
    """Notify its owner that its GPUs are not used, and when it will be stopped."""
    FORGET = auto()
    """Withdraw the notification of its owner: it was used since, or its rule was changed."""
    STOP = auto()


@dataclass(frozen=True, slots=True)
class Use:
    """Use of a workspace: ``busy`` if something runs in it, ``last`` otherwise, in seconds since the epoch."""

    busy: bool
    last: float


@dataclass(frozen=True, slots=True)
class Decision:
    """The next step after ``unused`` seconds without use.

    ``again`` is the next time to decide if the workspace stays unused until then, in seconds since the epoch; None
    if there is none.
    """

    step: Step
    unused: float
    again: float | None


def decide(rule: IdleRule, use: Use, record: IdleRecord | None, now: float) -> Decision:
    """Return the next step for a workspace; ``record`` has its notifications and stops.

    A workspace is never stopped earlier than its owner was notified, also if the rule has become shorter since.
    """
    kept = record.kept if record is not None and record.kept is not None else use.last
    last = now if use.busy else min(now, max(use.last, kept))
    unused = now - last
    was_told = record is not None and record.told is not None
    if rule.tell_after is None or unused < rule.tell_after:
        again = None if rule.tell_after is None else last + rule.tell_after
        return Decision(Step.FORGET if was_told else Step.NOTHING, unused, again)
    if record is None or record.told is None or record.told < last:
        return Decision(Step.TELL, unused, now)
    if rule.notice is None:
        return Decision(Step.NOTHING, unused, None)
    if record.stops is None:
        return Decision(Step.TELL, unused, now)
    stops = max(record.stops, record.told + rule.notice)
    return Decision(Step.STOP if now >= stops else Step.NOTHING, unused, stops)


def rule_for(
    user: str, projects: Sequence[str], rules: Mapping[RuleKey, IdleRule], tree: Mapping[str, Project]
) -> IdleRule:
    """Return the rule for a person in these projects.

    A rule of one's own comes first. Otherwise each project has the rule of its own or of the nearest project above
    it, else that of the pool, and the most lenient of them counts. ``tree`` has all projects by name.
    """
    own = rules.get((RuleScope.PERSON, user))
    if own is not None:
        return own
    pool = rules.get((RuleScope.POOL, ""), NEVER)
    found = [_nearest(name, rules, tree) or pool for name in projects if name in tree] or [pool]
    return IdleRule(_longest([each.tell_after for each in found]), _longest([each.notice for each in found]))


def is_spared(
    user: str, projects: Sequence[str], rules: Mapping[RuleKey, IdleRule], tree: Mapping[str, Project]
) -> bool:
    """Return whether a rule of a person, or of one of these projects, says that no one is notified."""
    own = rules.get((RuleScope.PERSON, user))
    of = [own] if own is not None else [_nearest(name, rules, tree) for name in projects if name in tree]
    return any(rule is not None and rule.tell_after is None for rule in of)


def _nearest(name: str, rules: Mapping[RuleKey, IdleRule], tree: Mapping[str, Project]) -> IdleRule | None:
    found = (rules.get((RuleScope.PROJECT, above)) for above in _lineage(name, tree))
    return next((rule for rule in found if rule is not None), None)


def _lineage(name: str, tree: Mapping[str, Project]) -> Iterator[str]:
    current, seen = tree.get(name), set[str]()
    while current is not None and current.name not in seen:
        seen.add(current.name)
        yield current.name
        current = tree.get(current.parent or "")


def _longest(durations: Sequence[float | None]) -> float | None:
    """Return the longest duration; None is never, which is longer than all."""
    lengths = [each for each in durations if each is not None]
    return max(lengths) if len(lengths) == len(durations) else None


def record_of(transaction: Transaction, workspace: WorkspaceRecord) -> IdleRecord:
    """Return the notifications and stops of a workspace since its GPUs were reserved."""
    found = transaction.idle_records.get((workspace.user, workspace.server))
    if found is not None and found.reserved == workspace.since:
        return found
    return IdleRecord(workspace.user, workspace.server, workspace.since, len(workspace.gpus))


def tell(transaction: Transaction, key: WorkspaceKey, unused: float, notice: float | None) -> None:
    """Record a notification of the owner that the workspace was not used for ``unused`` seconds.

    ``notice`` is the time until it is stopped, in seconds, None if it is not.
    """
    workspace = transaction.workspaces.get(key)
    if workspace is None:
        return
    stops = None if notice is None else transaction.now + notice
    record = record_of(transaction, workspace)
    notified = replace(record, told=transaction.now, stops=stops, stopping=None, unused=unused)
    transaction.idle_records.put(notified)


def forget(transaction: Transaction, key: WorkspaceKey, reserved: float) -> None:
    """Withdraw the notification about a workspace, because it was used since."""
    record = transaction.idle_records.get(key)
    if record is not None and record.reserved == reserved and record.stopped is None:
        transaction.idle_records.put(replace(record, told=None, stops=None, stopping=None))


def keep(transaction: Transaction, key: WorkspaceKey, by: str) -> None:
    """Keep a workspace, as if it were used now.

    Raises `Refusal`: 404 for one without GPUs, 409 while it is being stopped.
    """
    workspace = transaction.workspaces.get(key)
    if workspace is None or not workspace.gpus:
        raise Refusal(404, "not_found", f"{key[0]} has no workspace {given(key[1] or 'default')} with GPUs.")
    record = record_of(transaction, workspace)
    if record.stopping is not None and transaction.now - record.stopping < STOPPING:
        raise Refusal(409, "stopping", "The workspace is being stopped now.", hint="Start it again in a moment.")
    kept = replace(record, kept=transaction.now, told=None, stops=None, stopping=None)
    transaction.idle_records.put(kept)
    if record.told is not None:
        transaction.add_audit_entry(by, "workspace.keep", _subject(key), {"unused": round(record.unused)}, {})


def stopping(transaction: Transaction, key: WorkspaceKey, reserved: float, unused: float) -> bool:
    """Record that the hub is asked to stop a workspace; return False if its owner has kept it meanwhile."""
    record = transaction.idle_records.get(key)
    if record is None or record.reserved != reserved or record.told is None:
        return False
    transaction.idle_records.put(replace(record, stopping=transaction.now, unused=unused))
    return True


def not_stopped(transaction: Transaction, key: WorkspaceKey) -> None:
    """Record that the hub did not stop a workspace."""
    record = transaction.idle_records.get(key)
    if record is not None and record.stopped is None and record.stopping is not None:
        transaction.idle_records.put(replace(record, stopping=None))


def released(transaction: Transaction, workspace: WorkspaceRecord) -> None:
    """Record that the GPUs of a workspace are released: if it was being stopped as idle, that it was."""
    key = (workspace.user, workspace.server)
    record = transaction.idle_records.get(key)
    if record is None or record.reserved != workspace.since:
        return
    if record.stopping is None:
        transaction.idle_records.remove(key)
        return
    transaction.idle_records.put(replace(record, stopped=transaction.now))
    unused = {"gpus": record.gpus, "gpu_type": workspace.gpu_type, "unused": round(record.unused)}
    transaction.add_audit_entry(POOL, "workspace.stop", _subject(key), unused, {})
    for other, old in transaction.state.idle_records.items():
        if old.stopped is not None and old.stopped < transaction.now - STOPPED_SHOWN:
            transaction.idle_records.remove(other)


def reserved(transaction: Transaction, key: WorkspaceKey) -> None:
    """Forget an earlier workspace of the same name: it was started again."""
    transaction.idle_records.remove(key)


def set_rule(
    transaction: Transaction, key: RuleKey, rule: IdleRule | None, by: str, *, until: float | None = None
) -> None:
    """Set the rule of the pool, of a project or of a person, until a time if one is given; None removes it.

    Raises `Refusal`: 404 for an unknown project, 422 for an end that has passed.
    """
    check_until(until, transaction.now)
    scope, name = key
    if scope is RuleScope.PROJECT and name not in transaction.projects:
        raise unknown_project(name, "project")
    record, was = transaction.idle_rules.get(key), recorded_whole(transaction, key)
    before, ends = None if record is None else record.rule, ending_key(key)
    if before != rule or until_of(transaction.endings, ends) != until:
        end_at(transaction, ends, until, by, None if before is None else asdict(before))
        if rule is None:
            transaction.idle_rules.remove(key)
        else:
            transaction.idle_rules.put(IdleRuleRecord(scope, name, rule.tell_after, rule.notice))
        subject = f"{scope.value} {name}".rstrip()
        of = name if scope is RuleScope.PROJECT else ""
        transaction.add_audit_entry(by, "idle_rule.change", subject, was, recorded(transaction, key), project=of)


def recorded(transaction: Transaction, key: RuleKey) -> dict[str, Any]:
    """Return a rule, with its end if it has one, as the audit trail has it; nothing without a rule."""
    record, until = transaction.idle_rules.get(key), until_of(transaction.endings, ending_key(key))
    return {**_shown(None if record is None else record.rule), **({} if until is None else {"until": until})}


def recorded_whole(transaction: Transaction, key: RuleKey) -> dict[str, Any]:
    """Return a rule as `recorded`, with what returns at its end: all that `restore` needs."""
    return {**recorded(transaction, key), **recorded_ends(transaction, [ending_key(key)])}


def restore(transaction: Transaction, key: RuleKey, values: Mapping[str, Any], by: str) -> None:
    """Set the rule with the ``values`` that the audit trail has of it; without values there is none.

    Raises `Refusal` as `set_rule` does.
    """
    fields = {name: value for name, value in values.items() if name not in {"until", ENDS}}
    set_rule(transaction, key, IdleRule(**fields) if fields else None, by, until=values.get("until"))
    _, subject = ending_key(key)
    for ending in ends_again(values, subject, by):
        transaction.endings.put(ending)


def key_of(subject: str) -> RuleKey:
    """Return the key of a rule by the subject of its end, or of its entries of the audit trail."""
    scope, _, name = subject.partition(" ")
    return RuleScope(scope), name


def ending_key(key: RuleKey) -> EndingKey:
    """Return the key of the end of a rule."""
    scope, name = key
    return EndingKind.IDLE_RULE, f"{scope.value} {name}"


def return_rule(transaction: Transaction, subject: str, before: dict[str, float | None] | None) -> None:
    """Set the rule that was there before one that has ended, named by the subject of its end.

    Raises `Refusal` if its project is gone.
    """
    set_rule(transaction, key_of(subject), None if before is None else IdleRule(**before), POOL)


def _shown(rule: IdleRule | None) -> dict[str, object]:
    return {} if rule is None else asdict(rule)


def _subject(key: WorkspaceKey) -> str:
    return "/".join(filter(None, key))


Change = Callable[[Callable[[Transaction], Any]], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class _Report:
    """A notebook server's report ``at`` a time, for the workspace whose GPUs were reserved at ``reserved``."""

    at: float
    reserved: float
    busy: bool
    last: float


class IdleWorkspaces:
    """The use of workspaces, and the notifications and stops of idle ones.

    A workspace whose notebook server reports nothing is left alone: its use is unknown. ``used`` has the
    times at which the GPUs of workspaces were last used as far as it is measured, in seconds since the epoch.
    """

    def __init__(
        self,
        state: State,
        settings: IdleSettings,
        used: Mapping[WorkspaceKey, float],
        clock: Callable[[], float],
        change: Change,
    ) -> None:
        self._state = state
        self._may_stop = settings.stop_idle_workspaces
        self._configured = settings.rules
        self._used = used
        self._clock = clock
        self._change = change
        self._reports: dict[WorkspaceKey, _Report] = {}
        self._seen: dict[WorkspaceKey, float] = {}

    # ---------- use

    def report(self, user: str, server: str, activity: wire.WorkspaceActivity) -> None:
        """Take in what the notebook server of a workspace reports about itself."""
        workspace = self._held((user, server))
        if workspace is None:
            return
        if len(self._reports) > len(self._state.workspaces):
            self._reports = {
                key: self._reports[key] for key in self._reports.keys() & self._state.workspaces.keys()
            }
            self._seen = {key: self._seen[key] for key in self._seen.keys() & self._reports.keys()}
        now = self._clock()
        last = now if activity.idle is None else now - activity.idle
        before = self._reports.get((user, server))
        if before is not None and before.reserved == workspace.since:
            last = max(last, before.at if before.busy else before.last)
        self._reports[user, server] = _Report(now, workspace.since, activity.busy, last)

    def see(self, user: str, server: str, last_activity: float | None) -> None:
        """Take in the last activity that the hub knows of, in seconds since the epoch."""
        if last_activity is not None:
            self._seen[user, server] = last_activity

    def decide(self, user: str, server: str, projects: Sequence[str]) -> Decision | None:
        """Return what to do about a workspace, None for one of which nothing is known or that has no GPUs."""
        key = (user, server)
        workspace, use = self._held(key), self._use(key)
        if workspace is None or use is None:
            return None
        return decide(self.rule(user, projects), use, self._record(workspace), self._clock())

    def rule(self, user: str, projects: Sequence[str]) -> IdleRule:
        """Return the rule for a person in these projects; without a notice if nothing may be stopped."""
        found = rule_for(user, projects, self._rules(), self._state.policy_projects())
        return found if self._may_stop else replace(found, notice=None)

    def unused(self, at_least: float, members: Mapping[str, Sequence[str]]) -> dict[WorkspaceKey, float]:
        """Return since when workspaces have not used their GPUs, if that is so long and no rule notifies owners.

        ``members`` are the members by project. Those whom a rule of their own or of a project spares are left out.
        """
        now, rules, tree = self._clock(), self._rules(), self._state.policy_projects()
        found = {}
        for user, server in self._state.workspaces:
            projects = [name for name, people in members.items() if user in people]
            decision = self.decide(user, server, projects)
            if decision is None or decision.unused < at_least:
                continue
            rule = rule_for(user, projects, rules, tree)
            if rule.tell_after is None and not is_spared(user, projects, rules, tree):
                found[user, server] = now - decision.unused
        return found

    def next_report(self, decision: Decision | None) -> float:
        """Return the seconds until a notebook server is to report again."""
        if decision is None or decision.again is None:
            return LONGEST_REPORT
        return min(LONGEST_REPORT, max(SHORTEST_REPORT, decision.again - self._clock()))

    def _rules(self) -> dict[RuleKey, IdleRule]:
        here = {key: record.rule for key, record in self._state.idle_rules.items()}
        return {**self._configured, **here}

    def _held(self, key: WorkspaceKey) -> WorkspaceRecord | None:
        found = self._state.workspaces.get(key)
        return found if found is not None and found.gpus else None

    def _record(self, workspace: WorkspaceRecord) -> Any:
        found = self._state.idle_records.get((workspace.user, workspace.server))
        return found if found is not None and found.reserved == workspace.since else None

    def _use(self, key: WorkspaceKey) -> Use | None:
        """Return the use of a workspace, None if its notebook server has not reported lately."""
        report, workspace = self._reports.get(key), self._held(key)
        if report is None or workspace is None or report.reserved != workspace.since:
            return None
        if self._clock() - report.at > REPORT_KNOWN:
            return None
        times = (report.last, workspace.since, self._used.get(key), self._seen.get(key))
        return Use(report.busy, max(at for at in times if at is not None))

    # ---------- notifications and stops

    async def tell(self, user: str, server: str, decision: Decision, rule: IdleRule) -> None:
        """Notify the owner of a workspace that it is not used. Raises `Refusal`."""
        await self._change(lambda change: tell(change, (user, server), decision.unused, rule.notice))

    async def forget(self, user: str, server: str) -> None:
        """Withdraw the notification of the owner: the workspace was used since. Raises `Refusal`."""
        workspace = self._held((user, server))
        if workspace is not None:
            await self._change(lambda change: forget(change, (user, server), workspace.since))

    async def stopping(self, user: str, server: str, decision: Decision) -> bool:
        """Record that the hub is asked to stop a workspace; return whether it is to be asked. Raises `Refusal`."""
        workspace = self._held((user, server))
        if workspace is None:
            return False
        key, since, unused = (user, server), workspace.since, decision.unused
        return bool(await self._change(lambda change: stopping(change, key, since, unused)))

    async def not_stopped(self, user: str, server: str) -> None:
        """Record that the hub did not stop a workspace. Raises `Refusal`."""
        await self._change(lambda change: not_stopped(change, (user, server)))

    async def keep(self, user: str, server: str, by: str) -> None:
        """Keep a workspace as if it were used now. Raises `Refusal`."""
        await self._change(lambda change: keep(change, (user, server), by))

    async def set_rule(self, key: RuleKey, rule: IdleRule | None, by: str, until: float | None = None) -> None:
        """Set a rule, until a time if given; None goes back to that of the settings. Raises `Refusal`."""
        await self._change(lambda change: set_rule(change, key, rule, by, until=until))

    # ---------- views

    def view(self, user: str, server: str, projects: Sequence[str]) -> wire.WorkspaceIdle | None:
        """Return how a workspace is used, None for one without GPUs."""
        workspace = self._held((user, server))
        if workspace is None:
            return None
        decision, use = self.decide(user, server, projects), self._use((user, server))
        if decision is None or use is None:
            return wire.WorkspaceIdle(known=False)
        record = self._record(workspace)
        notified = record is not None and record.told is not None and decision.step in {Step.NOTHING, Step.STOP}
        stops = decision.again if notified and record.stops is not None else None
        since = None if use.busy else self._clock() - decision.unused
        return wire.WorkspaceIdle(known=True, busy=use.busy, unused_since=since, told=notified, stops=stops)

    def stopped(self, user: str) -> list[wire.StoppedWorkspace]:
        """Return a person's workspaces lately stopped as idle, and not started since."""
        oldest = self._clock() - STOPPED_SHOWN
        found = [record for record in self._state.idle_records.values() if record.user == user]
        return [
            wire.StoppedWorkspace(server=each.server, at=each.stopped, gpus=each.gpus, unused=each.unused)
            for each in sorted(found, key=lambda each: each.server)
            if each.stopped is not None and each.stopped > oldest
        ]

    def rules(self) -> wire.IdleRules:
        """Return all rules, including the unchanged ones of the settings."""
        shown = {(scope.value, name): rule for (scope, name), rule in self._rules().items()}
        set_here = {(scope.value, name) for scope, name in self._state.idle_rules}
        pool = shown.pop(("pool", ""), NEVER)
        endings = self._state.endings
        return wire.IdleRules(
            stops=self._may_stop,
            pool=wire.IdleRule(tell_after=pool.tell_after, notice=pool.notice),
            until=until_of(endings, ending_key((RuleScope.POOL, ""))),
            exceptions=[
                wire.IdleException(
                    scope=scope,
                    name=name,
                    rule=wire.IdleRule(tell_after=rule.tell_after, notice=rule.notice),
                    configured=(scope, name) not in set_here,
                    until=until_of(endings, ending_key((RuleScope(scope), name))),
                )
                for (scope, name), rule in sorted(shown.items())
            ],
        )

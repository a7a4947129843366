"""Idle workspaces of a running pool: what notebook servers report, what follows from it, and the rules."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from springtide.scheduler import wire
from springtide.scheduler.engine.idle import changes
from springtide.scheduler.engine.idle.rule import NEVER, Decision, Step, Use, decide, rule_for
from springtide.scheduler.engine.settings import IdleSettings
from springtide.scheduler.engine.state.state import State, WorkspaceKey
from springtide.scheduler.engine.state.transaction import Transaction
from springtide.scheduler.store.records import IdleRule, RuleKey, WorkspaceRecord

SHORTEST_REPORT = 1.0
LONGEST_REPORT = 60.0
"""Minimum and maximum interval between two reports of a notebook server, in seconds."""
REPORT_KNOWN = 3 * LONGEST_REPORT
"""Age up to which a report says how a workspace is used, in seconds."""

Change = Callable[[Callable[[Transaction], Any]], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class _Report:
    """What a notebook server reported ``at`` a time of the workspace whose GPUs were reserved at ``reserved``."""

    at: float
    reserved: float
    busy: bool
    last: float


class IdleWorkspaces:
    """What is known of the use of workspaces, and what is told and done about idle ones.

    A workspace whose notebook server reports nothing is left alone: what it does is not known. ``used`` has the
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
        self._settings = settings
        self._used = used
        self._clock = clock
        self._change = change
        self._reports: dict[WorkspaceKey, _Report] = {}
        self._seen: dict[WorkspaceKey, float] = {}

    # ---------- what is known

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
        """Return the rule for a person in these projects; without a notice where nothing may be stopped."""
        found = rule_for(user, projects, self._rules(), self._state.policy_projects())
        return found if self._settings.stops else replace(found, notice=None)

    def next_report(self, decision: Decision | None) -> float:
        """Return the seconds until a notebook server is to report again."""
        if decision is None or decision.again is None:
            return LONGEST_REPORT
        return min(LONGEST_REPORT, max(SHORTEST_REPORT, decision.again - self._clock()))

    def _rules(self) -> dict[RuleKey, IdleRule]:
        return {**self._settings.rules, **self._state.idle_rules}

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

    # ---------- what is done

    async def tell(self, user: str, server: str, decision: Decision, rule: IdleRule) -> None:
        """Tell the owner of a workspace that it is not used. Raises `Refusal`."""
        await self._change(lambda change: changes.tell(change, (user, server), decision.unused, rule.notice))

    async def forget(self, user: str, server: str) -> None:
        """Forget that the owner was told: the workspace was used since. Raises `Refusal`."""
        workspace = self._held((user, server))
        if workspace is not None:
            await self._change(lambda change: changes.forget(change, (user, server), workspace.since))

    async def stopping(self, user: str, server: str, decision: Decision) -> bool:
        """Record that the hub is asked to stop a workspace; return whether it is to be asked. Raises `Refusal`."""
        workspace = self._held((user, server))
        if workspace is None:
            return False
        key, since, unused = (user, server), workspace.since, decision.unused
        return bool(await self._change(lambda change: changes.stopping(change, key, since, unused)))

    async def not_stopped(self, user: str, server: str) -> None:
        """Record that the hub did not stop a workspace. Raises `Refusal`."""
        await self._change(lambda change: changes.not_stopped(change, (user, server)))

    async def keep(self, user: str, server: str, by: str) -> None:
        """Keep a workspace as if it were used now. Raises `Refusal`."""
        await self._change(lambda change: changes.keep(change, (user, server), by))

    async def set_rule(self, key: RuleKey, rule: IdleRule | None, by: str) -> None:
        """Set a rule; None goes back to that of the settings. Raises `Refusal`."""
        await self._change(lambda change: changes.set_rule(change, key, rule, by))

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
        told = record is not None and record.told is not None and decision.step in {Step.NOTHING, Step.STOP}
        stops = decision.again if told and record.stops is not None else None
        since = None if use.busy else self._clock() - decision.unused
        return wire.WorkspaceIdle(known=True, busy=use.busy, unused_since=since, told=told, stops=stops)

    def stopped(self, user: str) -> list[wire.StoppedWorkspace]:
        """Return the workspaces of a person that were stopped as idle lately, and not started since."""
        oldest = self._clock() - changes.STOPPED_SHOWN
        found = [record for record in self._state.idle_records.values() if record.user == user]
        return [
            wire.StoppedWorkspace(server=each.server, at=each.stopped, gpus=each.gpus, unused=each.unused)
            for each in sorted(found, key=lambda each: each.server)
            if each.stopped is not None and each.stopped > oldest
        ]

    def rules(self) -> wire.IdleRules:
        """Return all rules, those of the settings that no admin has changed since included."""
        shown = {(scope.value, name): rule for (scope, name), rule in self._rules().items()}
        set_here = {(scope.value, name) for scope, name in self._state.idle_rules}
        pool = shown.pop(("pool", ""), NEVER)
        return wire.IdleRules(
            stops=self._settings.stops,
            pool=wire.IdleRule(tell_after=pool.tell_after, notice=pool.notice),
            exceptions=[
                wire.IdleException(
                    scope=scope,
                    name=name,
                    rule=wire.IdleRule(tell_after=rule.tell_after, notice=rule.notice),
                    configured=(scope, name) not in set_here,
                )
                for (scope, name), rule in sorted(shown.items())
            ],
        )

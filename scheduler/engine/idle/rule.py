"""What happens to a workspace by its rule, its use and the time; pure.

The conventions are those of jupyterhub-idle-culler, and stricter: activity that the hub knows counts as use, as do
that of kernels and terminals and measured use of the GPUs; a busy kernel or a program in a terminal is use now.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from springtide.scheduler.model import Project
from springtide.scheduler.store.records import IdleRecord, IdleRule, RuleKey, RuleScope

NEVER = IdleRule()
"""The rule by which nobody is told and nothing is stopped."""


class Step(Enum):
    """What to do about a workspace."""

    NOTHING = auto()
    TELL = auto()
    """Tell its owner that its GPUs are not used, and when it is stopped."""
    FORGET = auto()
    """Forget that its owner was told: it was used since, or its rule was changed."""
    STOP = auto()


@dataclass(frozen=True, slots=True)
class Use:
    """Use of a workspace: ``busy`` if something runs in it, ``last`` otherwise, in seconds since the epoch."""

    busy: bool
    last: float


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do, after ``unused`` seconds without use.

    ``again`` is when there may be something else to do if nobody uses the workspace until then, in seconds since
    the epoch; None if there is nothing.
    """

    step: Step
    unused: float
    again: float | None


def decide(rule: IdleRule, use: Use, record: IdleRecord | None, now: float) -> Decision:
    """Return what to do about a workspace; ``record`` is what was told and done about it.

    A workspace that its owner was told of is never stopped earlier than the owner was told, also if the rule has
    become shorter since.
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

"""Settings of the service for idle workspaces: whether any is stopped, and the rule of a new pool."""

from __future__ import annotations

from traitlets import Bool, Float, HasTraits, List, Unicode

from springtide.scheduler.engine.settings import IdleSettings
from springtide.scheduler.store.records import IdleRule, RuleScope

MINUTE = 60.0


class IdleTraits(HasTraits):
    """The settings, as a part of those of the service."""

    stop_idle_workspaces = Bool(
        False,
        help="Whether workspaces whose GPUs are not used may be stopped, by the rules of the page of workspaces. "
        "The hub gives the service the scope delete:servers for it. Without it their owners are only told.",
    ).tag(config=True)
    idle_tell_minutes = Float(
        0.0,
        min=0,
        help="After so many minutes without use of its GPUs the owner of a workspace is told, unless an admin has "
        "set another rule on the page of workspaces; 0: never.",
    ).tag(config=True)
    idle_notice_minutes = Float(
        0.0,
        min=0,
        help="A workspace is stopped so many minutes after its owner was told, unless it is used or kept, or an "
        "admin has set another rule; 0: never.",
    ).tag(config=True)
    idle_exempt_projects = List(
        Unicode(), help="The projects whose members' workspaces are neither reported nor stopped."
    ).tag(config=True)
    idle_exempt_people = List(Unicode(), help="The people whose workspaces are neither reported nor stopped.").tag(
        config=True
    )

    def idle_settings(self) -> IdleSettings:
        """Return the settings as the engine takes them."""
        tell_after, notice = (
            minutes * MINUTE if minutes else None for minutes in (self.idle_tell_minutes, self.idle_notice_minutes)
        )
        exempt = [(RuleScope.PROJECT, name) for name in self.idle_exempt_projects]
        exempt += [(RuleScope.PERSON, name) for name in self.idle_exempt_people]
        pool = {(RuleScope.POOL, ""): IdleRule(tell_after, notice)}
        return IdleSettings(self.stop_idle_workspaces, {**pool, **dict.fromkeys(exempt, IdleRule())})

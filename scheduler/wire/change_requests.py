"""Requests of people for changes that others decide: the wish, the reason, and the outcome."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta

from springtide.scheduler.wire.job_edits import MAX_REASON, JobEdit
from springtide.scheduler.wire.people import PersonEdit, ProjectEdit
from springtide.scheduler.wire.shapes import Answer, Name, ProjectName, Request

Reason = Annotated[str, Meta(max_length=MAX_REASON)]
RequestState = Literal["pending", "approved", "refused", "withdrawn", "expired", "obsolete"]
"""States of a request: ``obsolete`` is one whose project or job is gone, or whose person has left."""


class ProjectWanted(Request, frozen=True, kw_only=True, tag_field="kind", tag="project"):
    """A change of a project's ``quota``, ``limit`` or ``build_quota``, maybe ``until`` a time."""

    project: ProjectName
    edit: ProjectEdit


class BuildWanted(Request, frozen=True, kw_only=True, tag_field="kind", tag="build"):
    """A build quota of one's own for the person who asks, maybe until a time."""

    edit: PersonEdit


class MembershipWanted(Request, frozen=True, kw_only=True, tag_field="kind", tag="membership"):
    """Membership in a project for the person who asks."""

    project: ProjectName


class JobWanted(Request, frozen=True, kw_only=True, tag_field="kind", tag="job"):
    """A ``priority`` or ``time_limit`` of a waiting job, also one outside the ranges of its project."""

    job: Name
    edit: JobEdit


WantedChange: TypeAlias = ProjectWanted | BuildWanted | MembershipWanted | JobWanted


class NewChangeRequest(Request, frozen=True, kw_only=True):
    """A request for a change, with its reason."""

    wanted: WantedChange
    why: Annotated[str, Meta(min_length=1, max_length=MAX_REASON)]


class ChangeApproval(Request, frozen=True, kw_only=True):
    """The approval of a request; ``granted`` is the same change with other values or another end."""

    granted: WantedChange | None = None
    why: Reason = ""


class ChangeRefusal(Request, frozen=True, kw_only=True):
    """The refusal of a request, with its reason."""

    why: Annotated[str, Meta(min_length=1, max_length=MAX_REASON)]


class ChangeRequestView(Answer, frozen=True, kw_only=True):
    """A request with its times in seconds since the epoch; ``what`` is the wanted change in words.

    ``project`` is the one that it concerns, empty if none. A pending one ``expires`` by itself, has the
    ``present`` values in a sentence, and an ``obstacle`` while it cannot be granted as it is. ``decided`` is when
    ``by`` decided and said ``answer``; ``given`` is the granted change in words if it differs from the wanted one.
    ``may_decide`` says whether the caller may decide it.
    """

    number: int
    user: str
    what: str
    wanted: WantedChange
    project: str
    why: str
    at: float
    expires: float
    state: RequestState
    present: str = ""
    obstacle: str = ""
    decided: float | None = None
    by: str = ""
    answer: str = ""
    granted: WantedChange | None = None
    given: str = ""
    may_decide: bool = False


class ChangeRequests(Answer, frozen=True, kw_only=True):
    """The requests of the caller, and those that the caller may decide: pending ones first, then the latest."""

    items: list[ChangeRequestView]

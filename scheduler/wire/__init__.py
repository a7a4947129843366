"""The shapes that cross HTTP: what the pool's API takes and answers, as typed structs.

The API checks requests against them, its OpenAPI document is generated from them, and the client returns them.
Requests refuse unknown fields. Quantities are GPUs, times are seconds since the epoch, durations are seconds.
"""

from __future__ import annotations

from springtide.scheduler.wire.events import Event, Problem
from springtide.scheduler.wire.forecast import MOST_STARTS, Forecast, NodeEdit, ProjectOutlook, Shift, WhatIf
from springtide.scheduler.wire.jobs import (
    Attempt,
    GpuRef,
    Job,
    JobActed,
    JobPage,
    JobsActed,
    JobsAction,
    LogChunk,
    OutputFile,
    OutputList,
    Point,
    Points,
    Progress,
    Reason,
    Sentence,
    Starts,
)
from springtide.scheduler.wire.options import BadOption, Option, Surface
from springtide.scheduler.wire.people import (
    Admin,
    AuditEntry,
    AuditPage,
    Me,
    PersonEdit,
    PersonView,
    ProjectChoice,
    ProjectEdit,
    Sums,
)
from springtide.scheduler.wire.pool import (
    GpuCell,
    History,
    HistoryPoint,
    Holder,
    Idle,
    NodeView,
    PoolView,
    ProjectView,
)
from springtide.scheduler.wire.ranges import JobRanges
from springtide.scheduler.wire.shapes import MAX_GPUS, MAX_JOBS_PAGE, MAX_NAME, Answer, Request
from springtide.scheduler.wire.submission import OPTIONS, Submission, Wish
from springtide.scheduler.wire.workspaces import (
    BuildQuota,
    Workspace,
    WorkspaceList,
    WorkspaceRequest,
    WorkspaceView,
)

__all__ = [
    "MAX_GPUS",
    "MAX_JOBS_PAGE",
    "MAX_NAME",
    "MOST_STARTS",
    "OPTIONS",
    "Admin",
    "Answer",
    "Attempt",
    "AuditEntry",
    "AuditPage",
    "BadOption",
    "BuildQuota",
    "Event",
    "Forecast",
    "GpuCell",
    "GpuRef",
    "History",
    "HistoryPoint",
    "Holder",
    "Idle",
    "Job",
    "JobActed",
    "JobPage",
    "JobRanges",
    "JobsActed",
    "JobsAction",
    "LogChunk",
    "Me",
    "NodeEdit",
    "NodeView",
    "Option",
    "OutputFile",
    "OutputList",
    "PersonEdit",
    "PersonView",
    "Point",
    "Points",
    "PoolView",
    "Problem",
    "Progress",
    "ProjectChoice",
    "ProjectEdit",
    "ProjectOutlook",
    "ProjectView",
    "Reason",
    "Request",
    "Sentence",
    "Shift",
    "Starts",
    "Submission",
    "Sums",
    "Surface",
    "WhatIf",
    "Wish",
    "Workspace",
    "WorkspaceList",
    "WorkspaceRequest",
    "WorkspaceView",
]

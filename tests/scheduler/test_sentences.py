"""Every reason reads as whole sentences, whatever fills them."""

from __future__ import annotations

import ast
import itertools
import math
import random
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from springtide.scheduler import sentences
from springtide.scheduler.model import Alternative, Amount, HomeAccess, Reason, StartsIf
from springtide.scheduler.sentences import Role

SCHEDULER = Path(__file__).parents[2] / "scheduler"
COUNTS = (0, 1, 2, 8, 11, 1200)
NAMES = ("digits", "sweep lr=0.017", "ended. It")
BUDGET: dict[str, Any] = {
    "budget_of": NAMES,
    "budget_month": "November",
    "budget_spent": (1240.5, 12.345, 11.0),
    "budget_amount": 1200.0,
    "budget_unit": ("money", "gpu-hours"),
    "budget_currency": ("", "€"),
    "budget_beyond": ("tell", "no-borrowing", "last"),
    "budget_until": "2026-12-01 00:00",
}
FROZEN: dict[str, Any] = {
    "by": NAMES,
    "project": NAMES,
    "detail": ("", "A review"),
    "ends": ("", "2026-11-27 17:00 UTC"),
}
ENDS = ("2026-11-27 17:00 UTC", "2026-11-28 09:00 UTC")
NAME = "the node with-a-name-of-many-characters-1"
BOOKED = {"starts": "2026-12-04 17:00 UTC", "ends": "2026-12-04 19:00 UTC"}
UNDRAINS: list[dict[str, Any]] = [{"undrain": ("the node n1",)}, {"undrain": ("the node n1", "the node n2")}]
DRAINS: list[dict[str, Any]] = [
    {"drained": names, "drained_until": ends}
    for names, ends in (
        (("the node n1",), ENDS[:1]),
        (("the node n1", "GPU 2 of n2"), ENDS[:1] * 2),
        (("the node n1", "GPU 2 of n2"), ENDS),
        ((NAME,) * 12, ENDS[1:] * 12),
    )
]
"""Drained nodes and GPUs, and until when they are."""
TYPES = ((), ("v100",), ("v100", "t4"))
STARTS = (
    *("deep", "endless", "failed", "far", "gone", "grows", "large", "missed", "never", "occupied", "open"),
    *("overdue", "working"),
)
REFUSED = ("unreachable", "certificate", "private", "not-allowed", "unconfirmed")
UNSENT = ("interrupted", "login", "no-mail", "no-address", "not-set-up", "address-removed", "no-channel", "failed")
MADE = {f"{kind}_{part}" for kind in ("paused", "shrunk", "moved") for part in ("names", "users", "projects")}
LISTED = {"options", "names", "jobs", "projects", "nodes", "gpu_types", "drained", "drained_until", *MADE}
"""Parameters whose values are tuples themselves."""
MOST = 300
"""Maximum number of combinations of parameters to try."""
ONE_OR_MANY = re.compile(
    r"\b(1 (GPUs|workers|jobs|nodes|projects|members|trials|attempts|people|rows|are|were|have)"
    r"|([02-9]|\d\d+|1,\d+) (GPU(?!-hour)|worker|job|node|project|member|trial|attempt|person|row|is|was|has)"
    r"|1 such attempts|are 1 more|[Nn]one of (the )?1|some of the 1|1 \w+ (any more )?that were|room for 0)\b"
)
CLUMSY = re.compile(r"None\b(?! of)|[(){}]| [,.:]|\.\.|:\.|  |\ba (8|11|18)\b")

_RANGE = r"within [^()]+|between [^()]+|[^()]+ at the earliest"
_COUNTED = r"[^()]+ against [^()]+|\d+ kinds? of jobs"
ASIDE = re.compile(rf" \((exit code 75|{_RANGE}|{_COUNTED})\)")
"""What stands in parentheses: an exit code, the range of a start, and what a comparison is of."""

JOB = {"job": "a1", "name": NAMES, "project": NAMES}
OTHER = {"for_job": "b2", "for_name": ("", *NAMES), "for_project": NAMES, "for_user": "joe"}
WAY = {**JOB, **OTHER, "gpus": (1, 8), "within": (0, 1), "held": (1, 8), "quota": (0, 2), "keeps": (0, 1, 3)}
SPARED = {"jobs": (("x",),), "names": (("w",), ("w", "v"), ("",)), "projects": (("p",), ("p", "q"))}
HOLDERS = {
    "jobs": ((), ("x",)),
    "names": ((), ("w",), NAMES, tuple("abcdef"), ("",), ("", "")),
    "projects": ((), ("p",), ("p", "q")),
}
TYPED = {"of_type": (None, "v100")}
ROOM = {
    "project": "vision",
    "at": ("vision", "research team"),
    "place": (1, 2, 283),
    "held": (0, 1, 2, 8),
    "quota": (None, 0, 1, 2),
    "fair_share": 3,
    "gpus": (1, 8),
    "workers": (1, 9),
    "gpu_types": ((), ("v100",), ("v100", "t4")),
    **TYPED,
    "require": (None, "rack"),
    "free": 3,
    "node": "n1",
    "node_free": (0, 1, 3),
    "room": (0, 1, 9),
    "reserved": (0, 1, 2),
    "idle_reserved": (0, 1, 2),
}
SHARE = {**ROOM, "would_hold": (1, 9), "may_hold": (0, 1, 3), "own": (0, 1)}

START = {"gpus": (1, 8), "borrowed": (0, 1), "workers": (1, 2), "most": (2, 8), "preemptible": (0, 1)}

AWAITED = {
    "group": "big",
    "gpus": (1, 8),
    "workers": (1, 2),
    "gpu_types": ((), ("h100",)),
    "most": 4,
    "seconds": (0.0, 200.0),
    "present": 0,
    "error": "",
}

SLOW = {
    "level": ("", "rack", "socket"),
    "nodes": (1, 2),
    "faster_level": ("island", "node", "row 7"),
    "faster_nodes": (1, 4),
    "times": (0.9, 1.7, 12.3),
    "runs": (3, 4),
    "faster_runs": (3, 5),
}


def made_room(kind: str) -> dict[str, Any]:
    """Return what jobs of others do: one that the reader may not see, and some."""
    whose = {"users": ("joe",) * 3, "projects": ("joe", "vision", "research team")}
    return {f"{kind}_{part}": values for part, values in {"names": ("", *NAMES[:2]), "gpus": 8, **whose}.items()}


SAMPLES: dict[str, list[dict[str, Any]]] = {
    "started": [{**JOB, "gpus": (1, 8), "quota": 8, "held": 0}],
    "started-borrowing": [{**JOB, "gpus": (1, 2, 8), "quota": (0, 1, 2), "held": (0, 1, 8)}],
    "without-gpus-started": [{}],
    "started-before": [{**JOB, **OTHER, "gpus": (1, 8)}],
    "reservation-fulfilled": [{**JOB, "gpus": (1, 8)}],
    "reservation-lost": [{**JOB, "nodes": (("n1",), ("n1", "n2"))}],
    "reservation-refused": [{**JOB, "gpus": (1, 8)}],
    "reservation-outranked": [{**JOB, "gpus": (1, 8)}],
    "reservation-replaced": [{**JOB, "gpus": (1, 8)}],
    "grows": [{**JOB, "workers": (2, 9), "before": (1, 8)}],
    "gang-broken": [{**JOB, "workers": (0, 1, 3), "min_workers": 4}, {**JOB, "workers": 0, "min_workers": 1}],
    "gang-mended": [{**JOB, "workers": (1, 4), "before": (1, 3)}],
    "moved": [{**JOB, **OTHER}],
    "room-made": [{**JOB, **HOLDERS, "gpus": (1, 8)}],
    "promised": [{**JOB, **HOLDERS, "gpus": (1, 8)}],
    "reserved-ahead": [{**JOB, **HOLDERS, "gpus": (1, 8)}],
    "reclaimed": [WAY, {**WAY, **SPARED}],
    "node-closes": [{**JOB, "nodes": (("n1",), ("n1", "n2"))}],
    "limit-lowered": [
        {**JOB, **TYPED, "at": NAMES, "limit": COUNTS, "held": (1, 8), "keeps": (0, 1, 3)},
        {**JOB, **SPARED, "at": "a", "limit": 2, "held": 4, "keeps": 0},
        {**JOB, **BUDGET, "at": NAMES, "limit": COUNTS, "held": (1, 8), "keeps": 0},
    ],
    "engine-edited": [
        {"by": NAMES, "options": ("priority", "min_workers"), "detail": ("", "A deadline.")},
        {"by": NAMES, "options": (("min_workers",),), "was": (("all",),), "now": (("2",),)},
        {"by": NAMES, "options": ((),), "project": NAMES, "detail": "a deadline"},
    ],
    "notify-edited": [{"name": NAMES, "by": NAMES}],
    "notify-succeeded": [{"name": NAMES, "failed": (0, 1, 12), "trials": 12}],
    "delivery-no-report": [{}],
    "notify-report": [{"month": "October 2026"}],
    "notify-report-about": [{"whole_pool": (True, False)}],
    "notify-budget": [BUDGET],
    "notify-budget-over": [BUDGET],
    "notify-budget-near": [{**BUDGET, "level": 80}],
    "notify-budget-near-next": [BUDGET],
    "notify-budget-over-next": [BUDGET],
    "preempted": [WAY, {**WAY, **SPARED}],
    "rotated": [WAY],
    "rotated-for-shorter": [WAY],
    "held": [{}],
    "back-off": [{"seconds": (0, 1, 2, 90), "until": 5.0}],
    "unknown-project": [{"project": NAMES}],
    "over-limit": [
        {**TYPED, "at": NAMES, "held": COUNTS, "claimed": COUNTS, "limit": COUNTS, "gpus": (1, 8)},
        {**BUDGET, "at": NAMES, "held": 2, "claimed": 2, "limit": 2, "gpus": (1, 8)},
    ],
    "bound": [{"at": NAMES, "gpus": 1}],
    "limit-held": [{"at": NAMES, "held": 2, "limit": 2, "gpus": 1}],
    "beyond-quota": [
        {**TYPED, "at": NAMES, "firm": COUNTS, "quota": COUNTS, "gpus": (1, 8)},
        {**TYPED, "at": NAMES, "firm": COUNTS, "quota": COUNTS, "gpus": (1, 8), "below": (1, 4)},
    ],
    "too-large": [
        {"gpus": (1, 8), "workers": (1, 2), "largest": COUNTS, "gpu_types": TYPES, "rdma": (0, 1)},
        *[{"gpus": 8, "workers": (1, 2), "largest": (0, 2), **drains} for drains in (*DRAINS, *UNDRAINS)],
    ],
    "per-gpu-too-large": [
        {
            "workers": (1, 9),
            "gpus": (1, 8),
            "gpu_types": TYPES,
            "cpus": (0.5, 16.0),
            "memory": (0, 1 << 34),
            "most_cpus": (4.0, 64.0),
            "most_memory": (0, 1 << 33),
            "rdma": (0, 1),
        }
    ],
    "no-rdma": [{"workers": (1, 9), "gpus": (1, 8), "gpu_types": TYPES}],
    "gang-too-large": [
        {"workers": (1, 9), "gpus": (1, 8), "most": COUNTS, "gpu_types": TYPES},
        *[{"workers": 2, "gpus": 8, "most": (0, 1), **drains} for drains in (*DRAINS, *UNDRAINS)],
    ],
    "no-level": [{"level": NAMES, "gpu_types": TYPES, "rdma": (0, 1)}],
    "domain-too-small": [{"workers": (1, 9), "gpus": (1, 8), "level": NAMES, "most": COUNTS, "gpu_types": TYPES}],
    "awaits-node": [
        {**AWAITED, "asked": (0, 1, 2), "late": (0, 1), "present": (0, 2)},
        {**AWAITED, "asked": 0, "error": "exceeded quota"},
    ],
    "awaits-pause": [
        {**HOLDERS, "gpus": (1, 8), "pausing": (0, 1)},
        {**HOLDERS, "gpus": (1, 8), "pausing": 0, "seconds": (1, 90), "until": 5.0},
    ],
    "next": [{"gpus": (1, 8)}],
    "share-used": [ROOM, SHARE],
    "too-soon": [{**ROOM, "seconds": (0, 1, 90)}],
    "node-closes-first": [
        {
            "nodes": (("n1",), ("n1", "n2")),
            "first": NAMES,
            "seconds": (60, 90_000),
            "lasts": (3600,),
            "starts": ("", "2026-12-01 18:00 UTC"),
            "ends": ("2026-12-01 20:00 UTC",),
            "needs": (None, 10_800),
            "known": (0, 1),
            "saves": (0, 1),
            "preemptible": (0, 1),
            "only_there": (0, 1),
            "limit": (0, 5_400),
        }
    ],
    "no-room": [
        ROOM,
        {**ROOM, "cpus": (0.0, 1.0, 2.5), "memory": 1 << 34, "suitable": (1, 2), "nodes": 3, "rdma": (0, 1)},
        *[{**ROOM, **drains} for drains in DRAINS],
    ],
    "without-gpus-limit": [
        {"project": NAMES, "running": (1, 4), "most": (1,), "place": (1, 2, 3)},
        {"project": NAMES, "running": 4, "most": 4, "place": 1, "steps": (1, 3)},
        {"project": NAMES, "running": (0, 1, 4), "most": (0,), "place": (1, 2)},
    ],
    "without-gpus-next": [{}],
    "without-gpus-drained": [{}, {"drained": ("the node train",), "drained_until": ("2026-11-27 17:00 UTC",)}],
    "starting": [{"gpus": (0, 1, 8), "borrowed": (None, 0, 1), "home": tuple(HomeAccess)}],
    "running": [{"gpus": (0, 1, 8), "borrowed": (None, 0, 1), "workers": (1, 2), "most": (1, 2, 8),
        "never_saved": (0, 1), "deleted": (0, 1)},
        *[{"gpus": 1, "borrowed": 0, "workers": 1, "most": 1, "home": each} for each in HomeAccess],
        {"gpus": (1, 8), "borrowed": 1, "workers": 1, "most": 1, "awaits_room": 1, "seconds": (-3.0, 590.0),
         "until": 90.0},
        {**SLOW, "gpus": 8, "borrowed": 0, "workers": 2, "most": 2, "works": (0, 5), "longer": (0.0, 10_800.0)}],
    "pausing": [{"gpus": (0, 1, 8), "saved": (0, 1)}],
    "stopping": [{"gpus": (1, 8), "seconds": (-3.0, 0.5, 30.0, 90.0), "until": 90.0}, {"gpus": (1, 8)}],
    **{
        code: [{"node": NAMES, "others": (0, 1, 2), "since": ("", "2026-11-26 12:03 UTC")}]
        for code in ("node-not-ready", "node-leaving", "node-cordoned")
    },
    "engine-closes": [
        {"nodes": nodes, "detail": ("", "New firmware"), **BOOKED} for nodes in (("n1",), ("n1", "n2", "täst 🌊"))
    ],
    "not-finite": [{"name": ("loss", "a\u202eb", "x" * 100), "step": (None, 7.0, 1e6), "others": (0, 1, 2)}],
    "sweep": [{"number": (1, 2, 60), "ended": (0, 1, 2), "running": (0, 1, 5), "gpus": 8, "borrowed": (0, 1, 8)},
        {"number": 2, "ended": (0, 1), "running": (0, 1, 2), "gpus": 0, "borrowed": 0}],
    "sweep-waits": [{}],
    "sweep-stopping": [{"trials": (1, 2, 8)}],
    "sweep-ended": [{"number": (1, 2, 60), "good": (1, 2), "failed": (0, 1, 2), "cancelled": (0, 1, 2)}],
    "sweep-failing": [{"failed": (10, 18)}],
    "population": [
        {
            "generation": (1, 10),
            "generations": 10,
            "members": 8,
            "ended": (0, 1, 7),
            "running": (0, 1, 5),
            "gpus": 5,
            "borrowed": (0, 1, 5),
        }
    ],
    "population-copies": [{"generation": 2, "generations": 10}],
    "population-lost": [{"generation": (1, 3), "members": 8, "gone": (0, 1, 8)}],
    "population-stuck": [{"generation": 2, "detail": ("", "No space left on device.")}],
    "test-run-first": [{"stage": ("waiting", "running")}],
    "test-run-long-enough": [{"seconds": (1.0, 120.0)}],
    "test-run-failed": [{"detail": ("", "It ended with exit code 1")}],
    "test-run-cancelled": [{"by": NAMES}],
    "engine-on-hold": [{"by": (*NAMES, ""), "detail": ("Its data may not be used.", "susan has left")}],
    "engine-paused-for-hold": [{"by": NAMES, "detail": "Its data may not be used."}],
    "engine-frozen": [FROZEN],
    "engine-frozen-runs": [FROZEN],
    "engine-paused-for-freeze": [FROZEN],
    "engine-on-hold-runs": [{"by": (*NAMES, ""), "detail": "Its data may not be used."}],
    "engine-held": [{"by": NAMES, "kept": (False, True)}],
    "engine-cancelled": [{"by": NAMES}],
    "engine-drained": [{"node": NAMES, "by": NAMES, "detail": ("", "A fan is to be replaced")}],
    "without-gpus-paused": [{"node": NAMES, "by": NAMES, "detail": ("", "A fan is to be replaced")}],
    "engine-gpu-drained": [{"gpu": (0, 3), "node": NAMES, "by": ("", "joe"), "detail": ("", "A fan is broken")}],
    "engine-moved-off": [{"by": NAMES}],
    "gpu-xid": [{"xid": (79, 150), "what": ("", "the GPU has fallen off the bus")}],
    "gpu-ecc": [{"new": (1, 2), "errors": (2, 5)}],
    "gpu-lost": [{}],
    "notify-gpu-drained": [{"gpu": (0, 3), "node": NAMES}],
    "notify-gpu-drained-next": [{}],
    "faulty-gpu": [{"gpu": (0, 3), "uuid": "GPU-00000002"}],
    "notify-launch-stopped": [{"scope": ("pool", "image", "user"), "name": NAMES}],
    "notify-launch-stopped-next": [{}],
    "notify-node-drained": [{"node": NAMES}],
    "notify-node-drained-next": [{"finish": (True, False)}],
    "slow-node": [{"times": (1.5, 2.0), "runs": (1, 7), "other_runs": 12}, {"times": 1.84, "works": (1, 10)}],
    "notify-workspace-unused": [{"server": ("", "big"), "gpus": (1, 2), "unused": (1.0, 7200.0)}],
    "notify-workspace-stops": [{"notice": (60.0, 1800.0)}],
    "notify-workspace-stopped": [{"server": ("", "big"), "gpus": (1, 2), "unused": (1.0, 7200.0)}],
    **{f"notify-workspace-{what}": [{}] for what in ("stays", "stopped-next")},
    "engine-time-limit": [{"seconds": (1.0, 90.0, 3600.0)}],
    "engine-succeeded": [{"lost_result": ("", "TypeError: cannot pickle it")}, {"returned": 0}],
    "engine-paused": [{}],
    "engine-finished": [{"by": NAMES}],
    "engine-ended-cleanly": [{"saved": (0, 1)}],
    "engine-never-saved": [{"lost": (0.0, 40.0, 7200.0)}],
    "engine-again": [{}, {"quick": (2, 20), "wait": (4.0, 300.0)}],
    "engine-evicted": [{"detail": ("", "Its pod was deleted from outside the pool")}],
    "engine-held-and-resumed": [{"by": NAMES}],
    **{f"did-{what}": [{"by": ("", *NAMES)}] for what in ("pause", "resume", "cancel", "end-now")},
    "did-hold": [{"by": ("", *NAMES), "detail": ("", "A deadline"), "project": ("", *NAMES)}],
    "did-release": [{"by": ("", *NAMES), "project": ("", *NAMES)}],
    "did-edit": [
        {"by": NAMES, "options": ("priority", "min_workers"), "project": ("", *NAMES)},
        {"by": NAMES, "options": (("priority", "workers"),), "was": (("train", "1"),), "now": (("60", "2"),)},
        {"by": NAMES, "options": ((),), "before": NAMES, "project": NAMES, "detail": "a deadline"},
    ],
    "did-give": [{"by": ("", *NAMES), "before": NAMES, "user": NAMES}],
    "engine-again-in-vain": [{"times": (1, 2), "limit": (1, 20)}],
    "engine-fruitless": [{"times": (1, 20)}],
    "engine-lost": [{"detail": ("", "The node went away"), "saved": (0, 1)}],
    "engine-blocked": [{"detail": ("", "The cluster refused the job's pod: exceeded quota")}],
    "engine-closed-to-owner": [{"detail": ("", "The folder is closed"), "former": NAMES, "user": NAMES}],
    "engine-withheld": [{"detail": ("", "The cluster refused the job's pod: exceeded quota")}],
    "engine-store": [{"detail": ("", "The disk that holds the store is full.")}],
    "engine-not-launched": [{"detail": ("", "The machine is busy.")}],
    "engine-not-stopped": [{"detail": ("", "The cluster cannot be asked to end the job: no webhook answers")}],
    "engine-failed": [
        {"kind": "exit", "detail": ("", "No module named x"), "code": (1, 3)},
        {"kind": "exit", "detail": "", "signal": ("SIGKILL", "SIGSEGV"), "retry": 1, "retries": (1, 3)},
        {"kind": ("exit", "lost", "refused"), "detail": ("", "No such image.")},
    ],
    **{f"engine-starts-{why}": [{}] for why in STARTS},
    "engine-starts-drained": DRAINS,
    "engine-starts-budget": [{"budget_of": NAMES, "budget_until": "2026-12-01 00:00"}],
    "engine-starts-far": [{"days": (1.0, 14.0, 0.5)}],
    "engine-starts-unmeasured": [{}, {"within": (60.0, 600.0, 28_800.0)}],
    "estimate-now": [START],
    "estimate-room": [START, *({**START, **made_room(kind)} for kind in ("paused", "shrunk", "moved"))],
    "estimate-later": [{"likely": (3.0, 720.0), "first": (0.0, 300.0), "last": (None, 2400.0)}],
    "advice-spread": [SLOW],
    "advice-gpu-type": [{**SLOW, "faster_type": "a100", "gpu_type": NAMES}],
    "advice-size": [
        {**SLOW, **TYPED, "better_workers": (1, 2), "better_gpus": (1, 4), "workers": (1, 2), "gpus": (1, 2)}
    ],
    "estimate-smaller": [{"gpus": (1, 4), "workers": (1, 2)}],
    **{f"notify-{what}": [{"name": NAMES}] for what in ("resumed", "succeeded", "failed")},
    **{f"notify-{what}": [{"name": NAMES}, {"name": NAMES, "by": NAMES}] for what in ("paused", "cancelled")},
    "notify-held": [{}],
    "notify-attempt-failed": [{"name": NAMES}],
    "notify-limit-near": [{"name": NAMES, "seconds": (0.0, 90.0, 900.0)}],
    "notify-limit": [{"seconds": (300.0, 3600.0)}],
    "notify-saved": [{"step": (1.0, 41.0, 0.5)}],
    "notify-ran": [{"seconds": (1.0, 7500.0), "paused": (0.0, 0.4, 300.0)}, {"seconds": 1.0}],
    "notify-many": [{"count": (1, 2, 1200)}, {"count": (50,), "failed": (49,), "succeeded-soon": (1,)}],
    "notify-more": [{"count": (1, 2, 1200)}],
    "notify-needs": [{"count": (2, 1200)}],
    "notify-needs-more": [{"count": (1, 12)}],
    "notify-needs-where": [{}],
    "notify-asked": [{"by": NAMES}],
    "need-store": [{"detail": "The disk is full."}],
    "need-launch": [{"jobs": (1, 12), "detail": "Pods are forbidden."}],
    "need-unmatched": [
        {
            "detail": "The job “bert” of “susan” runs on GPU-1, which no node has.",
            "gpus": (0, 1, 8),
            "change": "Have it leave them.",
            "holder": "job1.1",
        }
    ],
    "need-usage": [{"detail": "The disk is full."}],
    "need-nodes": [{"name": "big", "detail": "The quota of the cloud is used up."}],
    "need-backup": [{"ever": (True, False), "after": (10_800.0, 86_400.0, 172_800.0)}],
    "need-channel": [{"channel": "email", "detail": "The mail server refused the message with code 550."}],
    "need-quotas": [{"over": (1, 8), "room": (0, 1, 64), **TYPED}],
    "need-drain": [
        {"node": "n1", "gpu": (None, 0, 3), "by": "admin", "fault": (False, True), "detail": ("", "a fan")}
    ],
    "need-request": [
        {
            "user": NAMES,
            "what": "a quota of 4 GPUs for “vision”",
            "number": 12,
            "values": (0, 1),
            "detail": "A deadline on Friday.",
            "present": ("", "The quota is 2 now."),
            "obstacle": ("", "The quotas of the top projects would add up to 10 GPUs."),
        }
    ],
    "notify-request": [{"user": NAMES, "what": "membership in “vision” for “joe”"}],
    "notify-request-next": [{"number": 12, "values": (0, 1), "detail": "I join the team."}],
    "notify-request-ended": [
        {
            "what": "membership in “vision” for “joe”",
            "by": NAMES,
            "state": ("approved", "refused", "expired", "obsolete"),
        }
    ],
    "notify-request-ended-next": [
        {
            "state": "approved",
            "detail": ("", "The rest is booked."),
            "given": ("", "a quota of 3 GPUs for “vision”"),
        },
        {"state": ("refused", "expired", "obsolete"), "detail": "Not this week."},
    ],
    "need-leaver": [{"user": NAMES, "jobs": (1, 3)}],
    "need-handed-over": [{"user": NAMES, "former": NAMES, "jobs": (1, 3), "detail": ("", "It is closed.")}],
    "need-stays": [{"what": "quota", "subject": ("", *NAMES), "before": "2", "detail": "It does not fit."}],
    "need-ending": [{"what": "build quota", "subject": ("", *NAMES), "before": "none"}],
    "need-workspace": [{"user": NAMES, "server": ("", "b"), "gpus": (1, 2)}],
    "need-job": [{"user": NAMES, "name": NAMES, "gpus": (1, 8)}],
    **{f"notify-{what}": [{}] for what in ("test", "undelivered", "again")},
    "delivery-answered": [{"host": "hooks.slack.com", "status": (302, 404, 503)}],
    **{f"delivery-{why}": [{"host": "hooks.slack.com"}] for why in REFUSED},
    **{f"delivery-{why}": [{}] for why in UNSENT},
    "delivery-refused": [{"code": (451, 550)}],
}  # fmt: skip


def filled(fields: dict[str, Any]) -> list[dict[str, Any]]:
    """Return parameters with the values that stand in tuples combined: all of them, or some if they are many."""
    several = [
        value if isinstance(value, tuple) and (key not in LISTED or isinstance(value[0], tuple)) else (value,)
        for key, value in fields.items()
    ]
    if math.prod(map(len, several)) <= MOST:
        chosen = list(itertools.product(*several))
    else:
        draw = random.Random(1)
        chosen = [tuple(draw.choice(values) for values in several) for _ in range(MOST)]
    return [dict(zip(fields, values, strict=True)) for values in chosen]


def test_the_samples_are_of_all_codes() -> None:
    assert set(SAMPLES) == sentences.CODES


def test_every_code_that_the_scheduler_gives_has_sentences() -> None:
    given = {
        node.args[0].value
        for path in SCHEDULER.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and getattr(node.func, "id", getattr(node.func, "attr", "")) == "Reason"
        and node.args
        and isinstance(node.args[0], ast.Constant)
    }
    assert len(given) > 20
    assert given <= sentences.CODES


@pytest.mark.parametrize("code", SAMPLES)
def test_a_reason_is_whole_sentences(code: str) -> None:
    for params in (params for fields in SAMPLES[code] for params in filled(fields)):
        said = sentences.render(Reason(code, params))
        assert said, params
        for role, text in said:
            bare = re.sub("“[^”]*”", "it", text)
            assert role in Role
            assert text[0].isupper(), text
            assert bare.endswith((".", "!", "?")), text
            assert not ONE_OR_MANY.search(bare), text
            assert not CLUMSY.search(ASIDE.sub("", bare)), text
        assert len(set(said)) == len(said), said
        assert sentences.joined(said) == sentences.text(Reason(code, params))


OF_POOL = ("notify-", "need-", "delivery-", "gpu-", "faulty-", "slow-")
NO_JOB = ("did-", "estimate-", "advice-", "engine-starts-", *OF_POOL)
"""Beginnings of the codes that are no reason of a job."""
JOB_CODES = [code for code in SAMPLES if not code.startswith(NO_JOB)]
LONG = "the third of many runs with a rate of 0.0003 and a batch of 512"


def with_long_names(params: dict[str, Any]) -> dict[str, Any]:
    """Return the parameters with a long name in place of each name, and with large numbers."""
    longer: dict[str, Any] = {}
    for key, value in params.items():
        if key in NAMED and value:
            longer[key] = LONG
        elif key in {"names", "gpu_types"} and value:
            longer[key] = (LONG,) * len(value)
        elif isinstance(value, int) and not isinstance(value, bool) and value > 1:
            longer[key] = value * 1_111
        else:
            longer[key] = value
    return longer


NAMED = {"at", "by", "name", "project", "node", "group", "level", "require", "for_name", "for_user", "for_project"}


@pytest.mark.parametrize("code", JOB_CODES)
def test_a_headline_is_one_short_line(code: str) -> None:
    for params in (params for fields in SAMPLES[code] for params in filled(fields)):
        usual = sentences.headline(Reason(code, params))
        assert usual.endswith((".", "?")), (usual, params)
        assert usual[0].isupper() or usual[0] in "“0123456789", usual
        assert not ONE_OR_MANY.search(re.sub("“[^”]*”", "it", usual)), usual
        longest = sentences.headline(Reason(code, with_long_names(params)))
        assert len(longest) <= sentences.LONGEST_HEADLINE, longest
        assert longest.endswith((".", "?", "…")), (longest, params)
        assert "\n" not in usual + longest
        for brief in (sentences.brief_headline(Reason(code, each)) for each in (params, with_long_names(params))):
            assert 0 < len(brief) <= sentences.LONGEST_BRIEF, brief
            assert brief.count("“") == brief.count("”"), f"a name is cut off in {brief}"


@pytest.mark.parametrize("code", JOB_CODES)
def test_a_reason_is_short_enough_to_be_read(code: str) -> None:
    for params in (params for fields in SAMPLES[code] for params in filled(fields)):
        said = [each for each in sentences.render(Reason(code, params)) if each.role is not Role.PLACE]
        assert len(sentences.joined(said)) <= sentences.LONGEST_REASON, said


def test_the_reasons_of_a_busy_pool_are_short_enough_to_be_read() -> None:
    run = [sys.executable, str(SCHEDULER.parent / "benchmarks/list_sentences.py")]
    printed = subprocess.run(run, capture_output=True, text=True, check=True).stdout
    verdicts = printed.splitlines()[-2:]
    assert [line.split()[1].rstrip("s;") for line in verdicts] == ["headline", "reason"]
    assert all(line.endswith(" ok") for line in verdicts), verdicts


def test_names_of_jobs_projects_and_people_are_in_quotes() -> None:
    reasons: dict[str, dict[str, Any]] = {
        "preempted": {"for_name": "waits", "for_user": "susan", "for_project": "vision"},
        "engine-drained": {"node": "n1", "by": "admin"},
        "domain-too-small": {"level": "rack", "most": 2, "gpus": 8, "workers": 4, "gpu_types": ["t4"]},
        "over-limit": {"at": "vision", "held": 2, "claimed": 2, "gpus": 4, "limit": 5},
    }
    said = {code: sentences.text(Reason(code, params)) for code, params in reasons.items()}
    assert said["preempted"].startswith("It made way for the job “waits” of “susan” in “vision”, which")
    assert said["engine-drained"].startswith("The node n1 was drained by “admin”.")
    assert said["domain-too-small"].startswith("It needs 4 workers with 8 t4 GPUs each in one rack, and")
    assert said["over-limit"].startswith("The project “vision” may hold at most 5 GPUs:")


def test_a_headline_has_the_cause_of_a_pause_and_why_the_job_waits() -> None:
    cause = Reason("preempted", {"for_name": "waits", "for_user": "susan", "for_project": "susan"})
    waits = Reason("no-room", {"gpus": 4, "workers": 1, "node_free": 2, "at": "vision", "place": 1})
    assert sentences.headline(cause, waits) == (
        "Paused for “waits” (higher priority). Waiting for 4 GPUs on one node: 2 are free."
    )
    under_way = Reason("preempted", {**cause.params, "under_way": 1})
    assert sentences.headline(under_way) == "Pausing for “waits” (higher priority)."
    assert sentences.brief_headline(cause, waits) == "Paused for “waits”."
    assert sentences.headline(waits) == "Waiting for 4 GPUs on one node: 2 are free. Next in line."
    assert sentences.headline(Reason("from-tomorrow", {})) == ""


def test_a_code_of_another_version_is_told_as_it_is() -> None:
    assert sentences.text(Reason("from-tomorrow", {"x": 1})) == "The reason has the code “from-tomorrow”."


def test_a_job_far_back_in_line_is_not_told_what_would_start_the_first() -> None:
    about: dict[str, Any] = {
        "project": "jemma",
        "at": "jemma",
        "held": 8,
        "quota": 2,
        "gpus": 1,
        "workers": 1,
        "node_free": 0,
    }
    far = Reason("share-used", {**about, "place": 283})
    assert sentences.text(far) == (
        "Waiting for 1 GPU: none is free. The project “jemma” holds 8 GPUs: its 2 and 6 borrowed."
        " Number 283 in line, after 282 jobs of “jemma”."
    )
    assert sentences.headline(far) == "Waiting for 1 GPU: none is free. Number 283 in line of “jemma”."
    beyond = Reason("share-used", {**about, "gpus": 3, "node_free": 2, "place": 1})
    assert sentences.headline(beyond) == "Waiting for 3 GPUs on one node: 2 are free. Next in line of “jemma”."
    first = Reason("share-used", {**about, "place": 1})
    assert sentences.text(first).endswith("6 borrowed. Next in line of “jemma”.")


def test_gpus_reserved_for_other_jobs_are_named_beside_what_the_project_would_hold() -> None:
    about: dict[str, Any] = {"project": "robots", "at": "robots", "held": 0, "quota": 2, "fair_share": 2.0}
    about |= {"gpus": 2, "workers": 1, "free": 2, "node_free": 2, "room": 1, "reserved": 2, "place": 1}
    text = sentences.text(Reason("share-used", {**about, "would_hold": 4, "may_hold": 2}))
    assert "Its share is 2 now; with this job and 2 GPUs reserved for others it holds 4." in text


def test_idle_gpus_that_are_reserved_are_said_where_none_is_free() -> None:
    about: dict[str, Any] = {"at": "vision", "gpus": 2, "workers": 1, "held": 2, "quota": 2, "node_free": 0}
    both: dict[str, Any] = {"gpu_types": ("a100", "h100"), "of_type": "h100", "place": 1}
    waits = Reason("no-room", {**about, **both, "reserved": 3, "idle_reserved": 1})
    assert sentences.headline(waits).startswith("Waiting for 2 a100 or h100 GPUs: 1 idle one is reserved.")
    assert sentences.text(waits).startswith(
        "Waiting for 2 a100 or h100 GPUs on one node: 1 idle one is reserved for others. The project “vision”"
    )
    some_free = Reason("no-room", {**about, "node_free": 1, "reserved": 3, "idle_reserved": 1, "place": 1})
    assert "1 free. Reserved for others: 3 GPUs." in sentences.text(some_free)


def test_a_limit_below_the_need_of_the_job_is_not_said_to_help_when_others_end() -> None:
    about: dict[str, Any] = {"at": "susan", "held": 2, "claimed": 2, "gpus": 4}
    low = sentences.text(Reason("over-limit", {**about, "limit": 2}))
    assert low == (
        "The project “susan” may hold at most 2 GPUs, and the job needs 4. With this limit it can never start."
    )
    assert "never" not in sentences.text(Reason("over-limit", {**about, "limit": 5}))


def test_a_running_job_tells_how_much_is_borrowed() -> None:
    running = Reason("running", {"gpus": 8, "borrowed": 6, "workers": 8, "most": 8})
    assert sentences.text(running) == "Running on 8 GPUs: 2 within the quota, 6 borrowed."


def test_a_sweep_without_gpus_says_nothing_of_gpus() -> None:
    sweep = Reason("sweep", {"number": 4, "running": 2, "ended": 1, "gpus": 0, "borrowed": 0})
    assert sentences.text(sweep) == "Running 2 trials. So far 1 of 4 trials has ended."
    assert sentences.headline(sweep) == "Running 2 trials. 1 of 4 trials ended."
    about = {"generation": 1, "generations": 3, "members": 4, "ended": 0, "running": 2}
    population = Reason("population", {**about, "gpus": 0, "borrowed": 0})
    assert sentences.text(population) == "Generation 1 of 3: 2 of 4 members run."
    assert "GPU" not in sentences.headline(population)


def test_an_attempt_that_asks_to_be_run_again_is_not_said_to_have_failed() -> None:
    again = Reason("engine-again-in-vain", {"times": 2, "limit": 20})
    waits = Reason("back-off", {"seconds": 2, "until": 10.0})
    assert sentences.text(waits) == "It can run again in 2 s."
    assert "fail" not in sentences.text(again)


BESIDE = {
    "no forecast": None,
    "at once": sentences.Expected(3.0),
    "later": sentences.Expected(720.0),
    "never": sentences.Expected(None, "engine-starts-never"),
    "unknown": sentences.Expected(None, "engine-starts-far"),
}


@pytest.mark.parametrize("code", SAMPLES)
def test_no_sentence_contradicts_the_forecast_beside_it(code: str) -> None:
    rendered = {sentences.render(Reason(code, params)) for fields in SAMPLES[code] for params in filled(fields)}
    for said, expected in itertools.product(rendered, BESIDE.values()):
        kept, adds = sentences.agreed(said, expected)
        roles = {each.role for each in kept}
        where = (said, expected)
        assert [each for each in said if each in kept] == list(kept), where
        assert [each.role for each in said if each not in kept] == [Role.EASE] * (len(said) - len(kept)), where
        if expected is None or expected.code == "engine-starts-far" or expected.after == 720.0:
            assert (kept, adds) == (said, True), where
        elif expected.after == 3.0:
            assert Role.EASE not in roles, where
        else:
            assert adds == (Role.CHANGE not in roles), where
            assert Role.EASE not in roles or Role.CHANGE in roles, where


AMOUNTS: dict[str, tuple[Amount, Amount]] = {
    "vision": (2, 4),
    "nlp": ({"a100": 2, "t4": 1}, None),
    "deep": (0, None),
}
IN_WORDS = {
    "if the job “a” of “vision” ended": Alternative(("a",)),
    "if the jobs “a” and “b” of “vision” ended": Alternative(("a", "b")),
    "if the jobs “a” of “vision” and “c d” of “nlp” ended": Alternative(("a", "c")),
    "with a quota of 4 for “vision”": Alternative(quota={"vision": 4}),
    "with a quota of 4 for “vision” and with a quota of 2 for “deep”": Alternative(quota={"vision": 4, "deep": 2}),
    "with a quota of 3 t4 GPUs for “nlp”": Alternative(quota={"nlp": {"a100": 2, "t4": 3}}),
    "with a limit of 8 for “vision”": Alternative(limit={"vision": 8}),
    "without the limit for “vision”": Alternative(limit={"vision": None}),
    "with 1 more node like the largest": Alternative(add_nodes=1),
    "with 2 more nodes like the largest": Alternative(add_nodes=2),
}


@pytest.mark.parametrize(("words", "alternative"), IN_WORDS.items(), ids=IN_WORDS)
def test_an_alternative_is_told_in_words(words: str, alternative: Alternative) -> None:
    named = {"a": ("a", "vision"), "b": ("b", "vision"), "c": ("c d", "nlp")}
    (said,) = sentences.starts_if_sentences(StartsIf((alternative,)), named.__getitem__, AMOUNTS)

    assert said.text == f"It could start {words}."
    assert said.role is (Role.EASE if alternative.remove_jobs else Role.CHANGE)


def test_a_sentence_names_the_first_alternative_that_is_short() -> None:
    many, few = Alternative(tuple("abcd")), Alternative(add_nodes=6)
    (said,) = sentences.starts_if_sentences(StartsIf((many, few)), lambda job: (job, "vision"), AMOUNTS)

    assert said.text == "It could start with 6 more nodes like the largest."
    assert sentences.starts_if_sentences(StartsIf((many,)), lambda job: (job, "vision"), AMOUNTS) == ()


@pytest.mark.parametrize(("path", "is_above"), [("../data/x.npz", True), ("data/../x.npz", False)])
def test_a_program_that_misses_a_file_beside_its_project_gets_a_hint(path: str, is_above: bool) -> None:
    error = f"FileNotFoundError: [Errno 2] No such file or directory: '{path}' (fit.py, line 3)"
    said = sentences.text(Reason("engine-failed", {"kind": "exit", "detail": error, "code": 1}))
    hint = " A job in a copy of its project needs the absolute path of what lies outside of it."
    assert said == f"{error}.{hint if is_above else ''}"


def test_numbers_of_a_pool_with_several_types_say_of_which_they_are() -> None:
    about: dict[str, Any] = {"at": "vision", "project": "vision", "gpus": 2, "workers": 1, "of_type": "t4"}
    about |= {
        "held": 7,
        "quota": 2,
        "reserved": 2,
        "gpu_types": ("t4",),
        "place": 2,
        "may_hold": 3,
        "would_hold": 9,
    }
    assert sentences.text(Reason("share-used", about)) == (
        "Waiting for 2 t4 GPUs on one node: none is free. Reserved for others: 2 t4 GPUs."
        " The project “vision” holds 7 t4 GPUs: its 2 and 5 borrowed."
        " Its share is 3 now; with this job it holds 9."
        " Number 2 in line for t4 GPUs, after 1 job of “vision”."
    )

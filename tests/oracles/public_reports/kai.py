"""Reports of KAI-Scheduler."""

from __future__ import annotations

from judges.report import Report, ReportOverTime, job, on, pool, several, several_on

ISSUES = "https://github.com/kai-scheduler/KAI-Scheduler/issues/"
PULLS = "https://github.com/kai-scheduler/KAI-Scheduler/pull/"

REPORTS = (
    Report(
        ISSUES + "1934",
        "Reclaim stopped at the quota of a queue, and never brought it to its fair share.",
        pool(
            [8],
            {"alice": 2, "bob": 2},
            *several_on("n0", 8, "a", "alice"),
            *several(8, "b", "bob", at=1),
        ),
        held={"alice": 4, "bob": 4},
    ),
    Report(
        ISSUES + "1750",
        "Reclaim was given up because of a protected queue, though a sibling over its quota was there.",
        pool(
            [8],
            {
                "org": {"quota": 5, "priority": 200},
                "reclaimer": {"quota": 4, "parent": "org"},
                "batch": {"quota": 0, "parent": "org"},
                "protected": {"quota": 3, "priority": 50},
            },
            *several_on("n0", 5, "batch", "batch"),
            on("protected", "protected", 3, "n0"),
            job("mine", "reclaimer", 2, 1),
        ),
        runs={"mine": 1, "protected": 1},
        held={"batch": 3},
    ),
    Report(
        PULLS + "1565",
        "A queue far over its share had running work of one below its share stopped.",
        pool(
            [8],
            {"fed": 2, "lean": 4},
            *several_on("n0", 3, "fed", "fed", 2),
            on("lean", "lean", 2, "n0"),
            job("more", "fed", 2, 1),
        ),
        runs={"lean": 1, "fed0": 1, "fed1": 1, "fed2": 1},
        waits=["more"],
    ),
    Report(
        PULLS + "374",
        "Reclaim between two departments failed because a third one asked for what it cannot get.",
        pool(
            [6],
            {"one": 2, "two": 2, "three": 2},
            *several_on("n0", 2, "two", "two", 2),
            on("three", "three", 2, "n0"),
            job("wide", "three", 6, 1),
            job("owner", "one", 2, 2),
        ),
        runs={"owner": 1, "three": 1},
        waits=["wide"],
        held={"two": 2},
    ),
    Report(
        ISSUES + "2065",
        "What a queue borrowed has to be returned whatever its priority.",
        pool(
            [8],
            {"a": {"quota": 4, "priority": 200}, "b": {"quota": 4, "priority": 50}},
            *several_on("n0", 2, "a", "a", 4),
            job("b", "b", 4, 1),
        ),
        runs={"b": 1},
        held={"a": 4},
    ),
    Report(
        ISSUES + "2065#within-quota",
        "A queue of higher priority wanted what another one holds within its quota.",
        pool(
            [4],
            {"a": {"quota": 2, "priority": 200}, "b": {"quota": 2, "priority": 50}},
            on("b", "b", 2, "n0"),
            job("a", "a", 4, 1),
        ),
        runs={"b": 1},
        waits=["a"],
    ),
    ReportOverTime(
        ISSUES + "1969",
        "A gang never saw its GPUs free at once, since each went to whatever small job fitted.",
        pool(
            [4, 4],
            {"large": 0, "small": 0},
            job("gang", "large", 4, 600, workers=2, duration=600),
            *(job(f"s{at}", "small", 1, 100 * at, duration=1200) for at in range(200)),
        ),
        starts={"gang": (600, 600 + 7200 + 1200)},
    ),
    Report(
        ISSUES + "586",
        "The docs said that who has more of its share is served first.",
        pool(
            [4],
            {"a": 0, "b": 0},
            *several_on("n0", 2, "a", "a"),
            on("b", "b", 1, "n0"),
            job("a-next", "a", 1, 1),
            job("b-next", "b", 1, 2),
        ),
        runs={"b-next": 1},
        waits=["a-next"],
    ),
    Report(
        PULLS + "132",
        "A job of two workers found no victims once the first worker had been served by an elastic job.",
        pool(
            [2, 2],
            {"a": 2, "b": 0},
            on("elastic", "b", 1, "n0", "n0", "n1", "n1", min_workers=2),
            job("pair", "a", 1, 1, workers=2),
        ),
        runs={"pair": 2, "elastic": 2},
    ),
    Report(
        ISSUES + "146",
        "When are running jobs moved together for one that needs a whole node?",
        pool(
            [4, 4],
            {"q": 8},
            on("left", "q", 2, "n0"),
            on("right", "q", 2, "n1"),
            job("whole", "q", 4, 1),
        ),
        runs={"left": 1, "right": 1, "whole": 1},
    ),
    ReportOverTime(
        PULLS + "126",
        "Jobs were reclaimed right after they had started.",
        pool(
            [2],
            {"owner": 2, "borrower": 0},
            job("borrowed", "borrower", 2, 0, duration=5000),
            job("owned", "owner", 2, 100, duration=1000),
        ),
        options=["--min-runtime", "600"],
        starts={"owned": (600, 630)},
        pauses={"borrowed": 1},
    ),
)

"""Reports of YuniKorn, by the pull requests that mend them."""

from __future__ import annotations

from judges.report import Report, job, on, pool, several, several_on

CORE = "https://github.com/apache/yunikorn-core/pull/"
SITE = "https://github.com/apache/yunikorn-site/pull/"

REPORTS = (
    Report(
        CORE + "759",
        "Preemption returned a part of a queue's guarantee only when all GPUs were in use.",
        pool(
            [6],
            {"a": 2, "b": 0},
            *several_on("n0", 6, "b", "b"),
            *several(6, "more", "b"),
            *several(2, "a", "a", at=10),
        ),
        runs={"a0": 1, "a1": 1},
        held={"a": 2, "b": 4},
    ),
    Report(
        CORE + "639",
        "A queue without a guarantee preempted others that were within theirs.",
        pool(
            [4],
            {"a": 2, "b": 2, "none": 0},
            on("a", "a", 2, "n0"),
            on("b", "b", 2, "n0"),
            job("none", "none", 1, 1),
        ),
        runs={"a": 1, "b": 1},
        waits=["none"],
    ),
    Report(
        CORE + "636",
        "A queue that has a maximum and no guarantee was never a victim.",
        pool(
            [4],
            {"capped": {"limit": 4}, "owner": 2},
            *several_on("n0", 2, "capped", "capped", 2),
            job("owned", "owner", 2, 1),
        ),
        runs={"owned": 1},
        held={"capped": 2},
    ),
    Report(
        SITE + "457",
        "Children without a guarantee below a parent with one preempted each other in a storm.",
        pool(
            [8],
            {"p": 4, "c1": {"parent": "p"}, "c2": {"parent": "p"}, "q": 4},
            *several_on("n0", 4, "q", "q", 2),
            job("one", "c1", 2, 1),
            job("two", "c2", 2, 2),
        ),
        runs={"one": 1, "two": 1},
        held={"q": 4, "p": 4},
    ),
    Report(
        CORE + "660",
        "A queue below its guarantee was preempted beside one that was above.",
        pool(
            [6],
            {"below": 3, "over": 0, "owner": 2},
            on("kept", "below", 2, "n0"),
            *several_on("n0", 4, "over", "over"),
            job("owned", "owner", 2, 1),
        ),
        runs={"owned": 1, "kept": 1},
        held={"over": 2},
    ),
    Report(
        CORE + "658",
        "Victims were stopped although all of them together were not enough for the request.",
        pool(
            [4],
            {"a": 2, "b": 0, "c": 2},
            on("a", "a", 2, "n0"),
            on("b", "b", 2, "n0"),
            job("c", "c", 4, 1),
        ),
        runs={"a": 1, "b": 1},
        waits=["c"],
    ),
    Report(
        CORE + "909",
        "The list of victims before its last filter was stopped, more than needed.",
        pool(
            [5],
            {"a": 2, "b": 0},
            *several_on("n0", 3, "one", "b"),
            on("two", "b", 2, "n0"),
            job("a", "a", 2, 1),
        ),
        runs={"a": 1},
        held={"b": 3},
    ),
)

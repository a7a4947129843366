"""Reports of Slurm and its like, Ray, Determined and Armada."""

from __future__ import annotations

from judges.report import Report, ReportOverTime, job, on, pool, several, several_on

GITHUB = "https://github.com/"

REPORTS = (
    Report(
        GITHUB + "SchedMD/slurm/pull/203",
        "A part of the victims was preempted before the plan turned out not to be feasible.",
        pool(
            [3, 3],
            {"owner": 4, "kept": 2, "borrower": 0},
            on("borrowed", "borrower", 3, "n0"),
            on("firm", "kept", 2, "n1", preemptible=False),
            job("gang", "owner", 2, 1, workers=2),
        ),
        runs={"borrowed": 1, "firm": 1},
        waits=["gang"],
    ),
    Report(
        GITHUB + "flux-framework/flux-sched/issues/670",
        "Should later jobs wait for one that needs a node which is down?",
        {
            **pool([4, 4], {"q": 8}, job("both", "q", 4, 0, workers=2), job("one", "q", 4, 1)),
            "nodes": [{"name": "n0", "gpus": 4}, {"name": "n1", "gpus": 4, "available": False}],
        },
        runs={"one": 1},
        impossible=["both"],
    ),
    ReportOverTime(
        GITHUB + "ROCm/spur/pull/732",
        "A job of more nodes than are ever free at once starved behind a stream of smaller ones.",
        pool(
            [2, 2],
            {"q": 4},
            job("wide", "q", 2, 600, workers=2, duration=600),
            *(job(f"s{at}", "q", 1, 100 * at, duration=600) for at in range(200)),
        ),
        options=["--order", "first-come"],
        starts={"wide": (600, 600 + 7200 + 600)},
    ),
    Report(
        GITHUB + "ngageoint/scale/issues/172",
        "Small jobs of lower priority filled every hole, and a large one of higher priority never found room.",
        pool(
            [4],
            {"q": 4},
            *several_on("n0", 4, "sand", "q", priority=25),
            *several(4, "more", "q", priority=25),
            job("couch", "q", 4, 9),
        ),
        runs={"couch": 1},
        held={"q": 4},
    ),
    Report(
        GITHUB + "ray-project/ray/issues/20968",
        "A placement group that became feasible with a new node was never scheduled.",
        pool([4], {"q": 4, "p": 4}, on("firm", "q", 4, "n0", preemptible=False), job("packed", "p", 4, 1)),
        waits=["packed"],
        starts_if={"packed": {"add_nodes": 1}},
    ),
    Report(
        GITHUB + "ray-project/ray/issues/39691",
        "A group of more bundles than the cluster may ever have nodes kept the next group from starting.",
        pool([2, 2], {"q": 4}, job("three", "q", 2, 0, workers=3), job("two", "q", 2, 1, workers=2)),
        runs={"two": 2},
        impossible=["three"],
    ),
    Report(
        GITHUB + "ray-project/ray/issues/15416",
        "A placement group beyond all of the cluster was tried again and again.",
        pool([2, 2], {"q": 4, "p": 0}, job("beyond", "q", 1, 0, workers=5), job("fits", "p", 1, 1, workers=4)),
        runs={"fits": 4},
        impossible=["beyond"],
    ),
    Report(
        GITHUB + "ray-project/ray/issues/20043",
        "Nobody was told that a placement group can never be placed.",
        pool([2, 2], {"q": 4}, job("packed", "q", 3)),
        impossible=["packed"],
    ),
    ReportOverTime(
        GITHUB + "determined-ai/determined/issues/3340",
        "The older one of two experiments was preempted, and a third one resumed in place of the preempted one.",
        pool(
            [2],
            {"q": 2},
            job("e1", "q", 1, 0, duration=9000),
            job("e2", "q", 1, 10, duration=9000),
            job("e3", "q", 1, 20, duration=9000),
            job("e4", "q", 1, 1000, priority=75, duration=100),
        ),
        options=["--order", "first-come"],
        starts={"e4": (1000, 1000), "e3": (9000, 9110)},
        pauses={"e1": 0, "e2": 1},
    ),
    Report(
        GITHUB + "determined-ai/determined/pull/4524",
        "An experiment wider than the largest agent was queued for ever without a word.",
        pool([4], {"q": 4}, job("wide", "q", 8, 0), job("narrow", "q", 4, 1)),
        runs={"narrow": 1},
        impossible=["wide"],
    ),
    Report(
        GITHUB + "determined-ai/determined/pull/1703",
        "How many trials of a search does a training of higher priority preempt?",
        pool([8], {"q": 8}, *several_on("n0", 8, "trial", "q"), job("urgent", "q", 4, 1, priority=75)),
        runs={"urgent": 1},
        some={tuple(f"trial{at}" for at in range(8)): 4},
    ),
    Report(
        GITHUB + "armadaproject/armada/pull/5071",
        "A job that was preempted took its place again, and one that should stay was stopped instead.",
        pool([6], {"a": 3, "b": 0}, *several_on("n0", 3, "b", "b", 2), job("a", "a", 3, 1)),
        runs={"a": 1},
        held={"b": 2},
    ),
    Report(
        GITHUB + "armadaproject/armada/pull/3714",
        "What a queue of little demand leaves of its share was not shared among the others.",
        pool([7], {"a": 0, "b": 0, "c": 0}, job("a", "a"), *several(7, "b", "b"), *several(7, "c", "c")),
        held={"a": 1, "b": 3, "c": 3},
    ),
    Report(
        GITHUB + "armadaproject/armada/pull/2245",
        "A part of a gang was preempted.",
        pool(
            [3],
            {"owner": 1, "borrower": 0, "other": 0},
            on("gang", "borrower", 1, "n0", "n0", "n0"),
            job("pair", "other", 2, 1),
            job("owned", "owner", 1, 2),
        ),
        runs={"owned": 1, "pair": 1},
        waits=["gang"],
    ),
    Report(
        GITHUB + "armadaproject/armada/pull/2611",
        "Queues below their fair share were preempted.",
        pool(
            [6],
            {"low": 0, "high": 0, "new": 0},
            on("low", "low", 1, "n0"),
            *several_on("n0", 5, "high", "high"),
            *several(2, "new", "new", at=1),
        ),
        runs={"low": 1, "new0": 1, "new1": 1},
        held={"high": 3},
    ),
)

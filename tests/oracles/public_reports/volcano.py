"""Reports of Volcano, and of kube-batch from which it came."""

from __future__ import annotations

from judges.report import Report, job, on, pool, several, several_on

ISSUES = "https://github.com/volcano-sh/volcano/issues/"
KUBE_BATCH = "https://github.com/kubernetes-retired/kube-batch/"

REPORTS = (
    Report(
        ISSUES + "1619",
        "Of two queues of equal weight the first one kept all.",
        pool([4], {"test": 0, "test1": 0}, *several_on("n0", 4, "a", "test"), *several(3, "b", "test1", at=1)),
        held={"test": 2, "test1": 2},
    ),
    Report(
        ISSUES + "2337",
        "A gang of high priority did not preempt jobs of lower priority.",
        pool(
            [4],
            {"q": 4},
            *several_on("n0", 4, "low", "q"),
            job("gang", "q", 1, 1, workers=4, priority=75),
        ),
        runs={"gang": 4},
        waits=["low0", "low1", "low2", "low3"],
    ),
    Report(
        ISSUES + "3567",
        "In a queue at its capability a job of high priority waited for one of low priority.",
        pool(
            [8],
            {"q": {"quota": 4, "limit": 4}},
            on("low", "q", 2, "n0", priority=25),
            job("high", "q", 3, 1, priority=75),
        ),
        runs={"high": 1},
        waits=["low"],
    ),
    Report(
        ISSUES + "1720",
        "Jobs of low priority ran on while one of high priority of their queue waited.",
        pool([3], {"q": 3}, *several_on("n0", 3, "low", "q", priority=25), job("high", "q", 1, 1, priority=75)),
        runs={"high": 1},
        some={("low0", "low1", "low2"): 2},
    ),
    Report(
        ISSUES + "991",
        "A job of low priority held the whole cluster, and one of high priority was not even considered.",
        pool(
            [4],
            {"a": 4, "b": 0},
            *several_on("n0", 4, "owned", "a", priority=25),
            job("urgent", "b", 1, 1, priority=75),
        ),
        waits=["urgent"],
        held={"a": 4},
    ),
    Report(
        ISSUES + "3003",
        "Reclaim looked at the first job of a queue only, and skipped those behind it.",
        pool(
            [4],
            {"a": 2, "b": 2},
            *several_on("n0", 2, "b", "b", 2),
            job("beyond", "a", 4, 1),
            job("within", "a", 2, 2),
        ),
        runs={"within": 1},
        waits=["beyond"],
        held={"b": 2},
    ),
    Report(
        ISSUES + "5881",
        "Jobs on GPUs of another model were evicted for a job that cannot use them.",
        pool(
            {"h20": [2], "l40s": [2]},
            {"high": {"h20": 2}, "low": 0},
            on("on-l40s", "low", 2, "l40s0", gpu_types=["l40s"]),
            on("on-h20", "low", 2, "h200", gpu_types=["h20"]),
            job("owner", "high", 2, 1, gpu_types=["h20"]),
        ),
        runs={"owner": 1, "on-l40s": 1},
        waits=["on-h20"],
    ),
    Report(
        ISSUES + "2384",
        "A job of one core waited behind one that does not fit.",
        pool(
            [8],
            {"q": 8},
            on("holds", "q", 5, "n0"),
            job("large", "q", 4, 1),
            job("small", "q", 1, 2),
        ),
        runs={"holds": 1, "small": 1},
        waits=["large"],
    ),
    Report(
        ISSUES + "4165",
        "Three queues of equal weight did not get equal parts.",
        pool([8], {"a": 0, "b": 0, "c": 0}, *(each for q in "abc" for each in several(4, q, q))),
        held={"a": 3, "b": 3, "c": 2},
    ),
    Report(
        ISSUES + "4679",
        "Nothing was reclaimed while the cluster was full, for jobs were not even enqueued.",
        pool(
            [8],
            {
                "a": 4,
                "a1": {"quota": 2, "parent": "a"},
                "a2": {"quota": 2, "parent": "a"},
                "b": 4,
            },
            *several_on("n0", 4, "one", "a1"),
            *several_on("n0", 4, "two", "a2"),
            job("owner", "b", 4, 1),
        ),
        runs={"owner": 1},
        held={"a": 4, "a1": 2, "a2": 2},
    ),
    Report(
        ISSUES + "4817",
        "In a tree of queues nothing was reclaimed from a sibling.",
        pool(
            [4],
            {"parent": 4, "c1": {"quota": 2, "parent": "parent"}, "c2": {"quota": 2, "parent": "parent"}},
            *several_on("n0", 2, "one", "c1", 2),
            job("two", "c2", 2, 1),
        ),
        runs={"two": 1},
        held={"c1": 2},
    ),
    Report(
        ISSUES + "4235",
        "After one offline task was evicted for an online one, the GPUs that were left over stayed idle.",
        pool(
            [4],
            {"parent": 4, "online": {"quota": 4, "parent": "parent"}, "offline": {"quota": 0, "parent": "parent"}},
            *several_on("n0", 2, "offline", "offline", 2),
            job("small", "offline", 1, 1),
            job("online", "online", 1, 2),
        ),
        runs={"online": 1, "small": 1},
        held={"parent": 4},
        some={("offline0", "offline1"): 1},
    ),
    Report(
        ISSUES + "3932",
        "Only the capability of the leaf was checked, and its parent went beyond its own.",
        pool(
            [8],
            {"parent": {"limit": 4}, "c1": {"parent": "parent"}, "c2": {"parent": "parent"}},
            on("one", "c1", 2, "n0"),
            job("two", "c2", 3, 1),
        ),
        runs={"one": 1},
        waits=["two"],
    ),
    Report(
        ISSUES + "3979",
        "The elastic part of a job was not given back to a job that asked for one pod.",
        pool(
            [4],
            {"a": 2, "b": 2},
            on("elastic", "a", 1, "n0", "n0", "n0", "n0", min_workers=2),
            job("one", "b", 1, 1),
        ),
        runs={"elastic": 3, "one": 1},
    ),
    Report(
        KUBE_BATCH + "issues/492",
        "Two gangs held a part of the cluster each, and neither could start.",
        pool([4], {"a": 0, "b": 0}, job("one", "a", 1, 0, workers=3), job("two", "b", 1, 1, workers=3)),
        runs={"one": 3},
        waits=["two"],
    ),
    Report(
        KUBE_BATCH + "pull/821",
        "One of the two CPUs that a gang needs stayed idle while small tasks waited.",
        pool(
            [2],
            {"q": 2},
            on("holds", "q", 1, "n0"),
            job("gang", "q", 1, 1, workers=2),
            job("small", "q", 1, 2),
        ),
        runs={"holds": 1, "small": 1},
        waits=["gang"],
    ),
)

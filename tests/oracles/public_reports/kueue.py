"""Reports of Kueue."""

from __future__ import annotations

from judges.report import Report, ReportOverTime, job, on, pool, several, several_on

ISSUES = "https://github.com/kubernetes-sigs/kueue/issues/"
PULLS = "https://github.com/kubernetes-sigs/kueue/pull/"

REPORTS = (
    Report(
        ISSUES + "3779",
        "A best-effort workload was preempted and admitted again without end.",
        pool(
            [6],
            {"tenant-a": 3, "tenant-b": 3, "best-effort": 0},
            on("a1", "tenant-a", 5, "n0"),
            on("free", "best-effort", 1, "n0"),
            job("a2", "tenant-a", 1, 10),
        ),
        runs={"a1": 1, "free": 1},
        waits=["a2"],
    ),
    Report(
        ISSUES + "14543",
        "Victims of the preemptor's own queue made others legal and were then spared: two workloads preempted "
        "each other.",
        pool(
            [4],
            {"a": 0, "b": 0},
            on("a-low", "a", 2, "n0", priority=25),
            on("b", "b", 2, "n0"),
            job("a-high", "a", 3, 10, priority=75),
        ),
        runs={"a-low": 1, "b": 1},
        waits=["a-high"],
    ),
    Report(
        ISSUES + "6947",
        "A workload that can never be admitted preempted in each cycle, and the next one of its queue waited.",
        pool(
            [3],
            {"a": 3, "b": 0},
            on("borrowed", "b", 1, "n0"),
            job("too-large", "a", 1, 1, workers=4),
            job("fits", "a", 1, 2, workers=3),
        ),
        runs={"fits": 3},
        waits=["borrowed"],
        impossible=["too-large"],
    ),
    Report(
        ISSUES + "7101",
        "A gang that takes its queue to an equal share was not admitted, and a smaller one flapped 33 times.",
        pool(
            [8],
            {"proj-1": 0, "proj-2": 0},
            *several_on("n0", 4, "one", "proj-1", 2),
            *(job(f"gang-{size}", "proj-2", 1, 10 - size, workers=size) for size in (6, 5, 4, 3)),
        ),
        runs={"gang-4": 4},
        waits=["gang-6", "gang-5", "gang-3"],
        held={"proj-1": 4, "proj-2": 4},
    ),
    Report(
        PULLS + "1866",
        "An earlier pending workload of another queue blocked the preemption that returns a quota.",
        pool(
            [4],
            {"a": 2, "b": 2, "c": 0},
            *several_on("n0", 2, "c", "c", 2),
            job("a", "a", 4, 1),
            job("b", "b", 2, 2),
        ),
        runs={"b": 1},
        waits=["a"],
        held={"c": 2},
    ),
    Report(
        PULLS + "2110",
        "More workloads of the queue were preempted than needed where nothing could be reclaimed from others.",
        pool(
            [4],
            {"a": 2, "b": 2},
            on("b", "b", 2, "n0"),
            *several_on("n0", 2, "low", "a", priority=25),
            job("high", "a", 1, 5, priority=75),
        ),
        runs={"high": 1, "b": 1},
        some={("low0", "low1"): 1},
    ),
    Report(
        ISSUES + "4809",
        "A pending workload at the head of a strict queue kept other queues from borrowing what it cannot use.",
        pool(
            [2],
            {"guaranteed": 2, "best-effort": 0},
            on("first", "guaranteed", 1, "n0"),
            job("second", "guaranteed", 2, 1),
            job("borrows", "best-effort", 1, 2),
        ),
        runs={"first": 1, "borrows": 1},
        waits=["second"],
    ),
    Report(
        ISSUES + "8309",
        "A workload that waits for one flavor blocked those behind it that ask for another one.",
        pool(
            {"a100": [2], "t4": [2]},
            {"q": {"a100": 2, "t4": 2}},
            on("holds", "q", 2, "a1000", gpu_types=["a100"]),
            job("waits", "q", 2, 1, gpu_types=["a100"]),
            job("other", "q", 2, 2, gpu_types=["t4"]),
        ),
        runs={"holds": 1, "other": 1},
        waits=["waits"],
    ),
    Report(
        ISSUES + "2270",
        "Pending workloads for 4 GPUs each kept one for a free GPU from being considered.",
        pool(
            [4],
            {"queue-m": 3, "queue-i": 1},
            on("m", "queue-m", 3, "n0"),
            *several(3, "large", "queue-i", 4),
            job("small", "queue-i", 1, 9),
        ),
        runs={"m": 1, "small": 1},
        waits=["large0", "large1", "large2"],
    ),
    Report(
        ISSUES + "9715",
        "With thousands of inadmissible workloads in front an admissible one was hardly ever reached.",
        pool(
            {"gpu": [4], "other": [1]},
            {"q": {"gpu": 4, "other": 1}},
            on("holds", "q", 4, "gpu0", gpu_types=["gpu"]),
            *several(12, "waits", "q", 4, gpu_types=["gpu"]),
            job("last", "q", 1, 99, gpu_types=["other"]),
        ),
        runs={"last": 1},
    ),
    Report(
        ISSUES + "4329",
        "8 GPUs on two nodes were taken for room for a pod of 8, which then blocked pods of one GPU.",
        pool([4, 4], {"q": 8}, job("wide", "q", 8, 0), job("narrow", "q", 1, 1)),
        runs={"narrow": 1},
        impossible=["wide"],
    ),
    Report(
        ISSUES + "5243",
        "Low-priority pods were stopped on several nodes for a pod that fits on none of them, and a small one "
        "waited behind it.",
        pool(
            [4, 4],
            {"q": 8},
            *several_on("n0", 3, "high-a", "q", priority=75),
            *several_on("n1", 3, "high-b", "q", priority=75),
            on("low-a", "q", 1, "n0", priority=25),
            on("low-b", "q", 1, "n1", priority=25),
            job("whole-node", "q", 4, 1, priority=75),
            job("small", "q", 1, 2, priority=75),
        ),
        runs={"small": 1},
        waits=["whole-node"],
        some={("low-a", "low-b"): 1},
    ),
    Report(
        ISSUES + "14570",
        "Two workloads were given the same node in one cycle.",
        pool([4, 4], {"a": 8, "b": 0}, job("gang", "a", 4, workers=2), job("one", "b", 4)),
        runs={"gang": 2},
        waits=["one"],
    ),
    Report(
        PULLS + "6214",
        "Free GPUs were spread over nodes, and preemption churned for a pod that needs them on one.",
        pool(
            [2, 2, 2, 2],
            {"q": 4, "p": 4},
            *(on(f"one{at}", "q", 1, f"n{at}") for at in range(4)),
            job("two", "p", 2, 1),
        ),
        runs={"two": 1, "one0": 1, "one1": 1, "one2": 1, "one3": 1},
    ),
    Report(
        ISSUES + "5424",
        "A high-priority workload borrowed a flavor and was stopped by its owner, while one of low priority had "
        "the quota.",
        pool(
            {"f1": [1], "f2": [1]},
            {"cq-1": {"f2": 1}, "cq-2": {"f1": 1}},
            on("low", "cq-1", 1, "f20", priority=25),
            on("high", "cq-1", 1, "f10", priority=75),
            job("owner", "cq-2", 1, 5, priority=25, gpu_types=["f1"]),
        ),
        runs={"owner": 1, "high": 1},
        waits=["low"],
        on={"owner": "f1", "high": "f2"},
    ),
    Report(
        ISSUES + "13607",
        "A flavor without candidates for preemption was preferred to one with free quota to borrow, for ever.",
        pool(
            {"a": [2], "b": [2]},
            {"target": 0, "owner": {"a": 2, "b": 2}},
            on("holds", "owner", 2, "a0", gpu_types=["a"]),
            job("borrows", "target", 1, 1, gpu_types=["a", "b"]),
        ),
        runs={"holds": 1, "borrows": 1},
        on={"borrows": "b"},
    ),
    Report(
        ISSUES + "9462",
        "A queue borrowed the second flavor while its own quota of the first one was held by a borrower.",
        pool(
            {"f1": [2], "f2": [2]},
            {"cq-1": {"f1": 1}, "cq-2": {"f1": 1}, "cq-3": {"f2": 2}},
            *several_on("f10", 2, "one", "cq-1"),
            *several(2, "two", "cq-2", at=5),
        ),
        runs={"one0": 1, "one1": 1, "two0": 1, "two1": 1},
        held={"cq-1": 2, "cq-2": 2},
    ),
    Report(
        ISSUES + "7301",
        "A workload of lower priority that had begun to preempt blocked one of higher priority.",
        pool(
            [2],
            {"q": 2},
            on("lowest", "q", 2, "n0", priority=25),
            job("low", "q", 2, 1, priority=50),
            job("high", "q", 2, 2, priority=75),
        ),
        runs={"high": 1},
        waits=["low", "lowest"],
    ),
    ReportOverTime(
        PULLS + "13797",
        "Victims that stopped at different times took their GPUs back from the workload they were stopped for.",
        pool(
            [4],
            {"a": 4, "b": 0},
            job("b1", "b", 2, 0, duration=9000),
            job("b2", "b", 2, 5, duration=9000),
            job("gang", "a", 1, 1000, workers=4, duration=1000),
        ),
        starts={"gang": (1000, 1000)},
        pauses={"b1": 1, "b2": 1, "gang": 0},
    ),
)

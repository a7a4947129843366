"""A long day on a cluster of its own: faults in an order that a seed draws, each for a time that it draws."""

from __future__ import annotations

import time
from pathlib import Path

from cluster_day.day import Day, DayFigures, Plan
from cluster_day.faults import FAULTS, foreign_job, preemptor
from clusters.cluster import Cluster, tools
from clusters.train_job_definition import define

NODE_GRACE_S = 50
"""The time after which a silent node is not ready, as clusters have it unless told otherwise."""
BY_SCHEDULER = (foreign_job, preemptor)
"""Faults in which kube-scheduler binds pods: with those that name their node it would need a kubelet to say no."""


def live_a_day(folder: Path, seed: int, seconds: float) -> DayFigures:
    """Live through a day; with an odd seed pods of jobs name their nodes, else the cluster binds them."""
    plan = Plan(
        unfinished=24,
        shortest=5.0,
        longest=40.0,
        nodes=6,
        hold=60.0,
        patience=600.0,
        registry_away=600.0,
        limit=90.0,
        said_within=60.0,
        kills=0.2,
        slowest_end=3.0,
        webhook_timeout=10,
        directly=bool(seed % 2),
    )
    faults = [fault for fault in FAULTS if not (plan.directly and fault in BY_SCHEDULER)]
    with Cluster.start(folder / "cluster", tools(), node_grace_s=NODE_GRACE_S) as cluster:
        define(cluster)
        with cluster.namespace() as namespace:
            labels = {"springtide.io/project": "vision", "springtide.io/pool": namespace}
            with cluster.namespace(labels) as team:
                day = Day(cluster, namespace, team, folder, seed, plan)
                with day.running():
                    ends = time.monotonic() + seconds
                    while time.monotonic() < ends:
                        for fault in day.rng.sample(faults, len(faults)):
                            if time.monotonic() < ends:
                                fault(day)
                    return day.finish()

"""A short day on a cluster: each thing that happens to clusters happens once, while jobs are submitted and run.

`make reliability RELIABILITY_ARGS="--only cluster-day --minutes 30"` lives through a longer one.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from cluster_day.day import Day, Plan
from cluster_day.faults import FAULTS, killed_api
from clusters.cluster import Cluster

IN_SHORT = [fault for fault in FAULTS if fault is not killed_api]
"""The API server's end takes its clients up to a minute to notice; here it hangs."""


@pytest.mark.usefixtures("crd")
@pytest.mark.timeout(900)
def test_whatever_happens_to_a_cluster_no_job_fails_runs_twice_or_shares_a_gpu(
    cluster: Cluster, namespace: str, tmp_path: Path
) -> None:
    labels = {"springtide.io/project": "vision", "springtide.io/pool": namespace}
    with cluster.namespace(labels) as team:
        day = Day(cluster, namespace, team, tmp_path, 1, Plan())
        with day.running():
            for fault in IN_SHORT:
                fault(day)
            figures = day.finish()
    assert figures.problems == [], "\n".join(figures.stories)
    assert sum(figures.faults.values()) == len(IN_SHORT)
    assert not figures.without_effect
    assert figures.jobs > figures.own_faults > 0

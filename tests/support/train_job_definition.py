"""The definition of TrainJobs in a cluster, as the chart brings it."""

from __future__ import annotations

from typing import Any

import yaml
from chart import CHART
from cluster import Cluster, ClusterError, until

FILE = CHART / "crds/trainjob.yaml"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DEFINITION = f"{DEFINITIONS}/trainjobs.springtide.io"
TRAIN_JOBS = "/apis/springtide.io/v1alpha1/trainjobs"
NOT_READY = 429


def define(cluster: Cluster) -> None:
    """Give the cluster this definition, and wait until TrainJobs can be stored."""
    body: dict[str, Any] = yaml.safe_load(FILE.read_text())
    if cluster.exists(DEFINITION):
        body["metadata"]["resourceVersion"] = cluster.request("GET", DEFINITION)["metadata"]["resourceVersion"]
        cluster.request("PUT", DEFINITION, body)
    else:
        cluster.request("POST", DEFINITIONS, body)
    until(lambda: is_established(cluster), "TrainJobs are known to the cluster")
    until(lambda: takes_train_jobs(cluster), "TrainJobs can be stored in the cluster")


def is_established(cluster: Cluster) -> bool:
    """Return whether the cluster knows TrainJobs."""
    conditions = cluster.request("GET", DEFINITION).get("status", {}).get("conditions") or []
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)


def takes_train_jobs(cluster: Cluster) -> bool:
    """Return whether TrainJobs can be stored: for a moment after a definition they cannot."""
    try:
        cluster.items(TRAIN_JOBS)
    except ClusterError as error:
        if error.status != NOT_READY:
            raise
        return False
    return True

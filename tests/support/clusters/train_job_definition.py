"""The definitions of SpringtideJobs and of their earlier kind in a cluster, as the chart brings them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from clusters.chart import CHART
from clusters.cluster import Cluster, ClusterError, until

FILE = CHART / "crds/springtidejob.yaml"
EARLIER_FILE = CHART / "crds/trainjob.yaml"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
DEFINITION = f"{DEFINITIONS}/springtidejobs.springtide.io"
EARLIER_DEFINITION = f"{DEFINITIONS}/trainjobs.springtide.io"
NOT_READY = 429


def define(cluster: Cluster) -> None:
    """Give the cluster both definitions, and wait until objects of both kinds can be stored."""
    for file in (FILE, EARLIER_FILE):
        give(cluster, file)


def give(cluster: Cluster, file: Path) -> None:
    """Give the cluster the definition of a file, and wait until objects of its kind can be stored."""
    body: dict[str, Any] = yaml.safe_load(file.read_text())
    path = f"{DEFINITIONS}/{body['metadata']['name']}"
    if cluster.exists(path):
        body["metadata"]["resourceVersion"] = cluster.request("GET", path)["metadata"]["resourceVersion"]
        cluster.request("PUT", path, body)
    else:
        cluster.request("POST", DEFINITIONS, body)
    plural = body["spec"]["names"]["plural"]
    until(lambda: is_established(cluster, path), f"{plural} are known to the cluster")
    until(lambda: takes(cluster, plural), f"{plural} can be stored in the cluster")


def is_established(cluster: Cluster, definition: str = DEFINITION) -> bool:
    """Return whether the cluster knows the kind of a definition."""
    conditions = cluster.request("GET", definition).get("status", {}).get("conditions") or []
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)


def takes(cluster: Cluster, plural: str = "springtidejobs") -> bool:
    """Return whether objects of a kind can be stored: for a moment after a definition they cannot."""
    try:
        cluster.items(f"/apis/springtide.io/v1alpha1/{plural}")
    except ClusterError as error:
        if error.status != NOT_READY:
            raise
        return False
    return True

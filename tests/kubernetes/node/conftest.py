from __future__ import annotations

import pytest
from clusters.cluster import Cluster
from clusters.real_node import RealNode
from clusters.real_pods import Pods


@pytest.fixture
def pods(cluster: Cluster, real_node: RealNode, namespace: str) -> Pods:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    cluster.request("PATCH", f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": labels}})
    return Pods(cluster, real_node, namespace)

"""The metrics of a pool, read by accounts of its cluster: a real API server says who may, and Prometheus reads.

The roles are those of the chart. Requests take the way of people, through the proxy: by root of the service's own
machine they need no token.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from clusters.chart import Helm, of_all
from clusters.cluster import Cluster, until
from clusters.kube_hub import KubeHub
from hubs import unpacked_programs
from patience import PATIENCE_S
from servers.ports import free_port

RBAC = "/apis/rbac.authorization.k8s.io/v1"
MONITORED = {"metrics": {"serviceMonitor": {"enabled": True}}}


@pytest.fixture(scope="module")
def objects(place: str, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What the chart renders for a pool that is scraped."""
    return Helm(tmp_path_factory.mktemp("helm")).template(MONITORED, namespace=place)


@contextmanager
def made(cluster: Cluster, path: str, body: Mapping[str, Any]) -> Iterator[None]:
    cluster.request("POST", path, dict(body))
    try:
        yield
    finally:
        cluster.request("DELETE", f"{path}/{body['metadata']['name']}")


@pytest.fixture
def scraper(cluster: Cluster, place: str, objects: list[dict[str, Any]]) -> Iterator[str]:
    """The token of the chart's account for scraping, which has no role yet."""
    (account,) = [each for each in of_all(objects, "ServiceAccount") if "scraper" in each["metadata"]["name"]]
    path = f"/api/v1/namespaces/{place}/serviceaccounts"
    with made(cluster, path, account):
        yield token_of(cluster, place, account["metadata"]["name"])


def token_of(cluster: Cluster, namespace: str, account: str) -> str:
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
    return str(cluster.request("POST", path, {"spec": {}})["status"]["token"])


@contextmanager
def allowed(cluster: Cluster, objects: list[dict[str, Any]]) -> Iterator[None]:
    """Give the account the right of the chart's ClusterRole."""
    role, binding = (
        next(each for each in of_all(objects, kind) if each["metadata"]["name"].endswith("-scraper"))
        for kind in ("ClusterRole", "ClusterRoleBinding")
    )
    with made(cluster, f"{RBAC}/clusterroles", role), made(cluster, f"{RBAC}/clusterrolebindings", binding):
        yield


def answer(hub: KubeHub, token: str, path: str = "metrics", method: str = "GET") -> httpx.Response:
    url = f"{hub.url}/services/springtide/api/v1/{path}"
    return httpx.request(method, url, headers={"Authorization": f"Bearer {token}"}, timeout=PATIENCE_S)


def test_prometheus_reads_the_metrics_by_the_account_that_the_chart_makes(
    hub: KubeHub, cluster: Cluster, objects: list[dict[str, Any]], scraper: str, tmp_path: Path
) -> None:
    program = unpacked_programs.find("prometheus")
    if program is None:
        pytest.fail("There is no prometheus on this machine: run `make tools`")
    (monitor,) = of_all(objects, "ServiceMonitor")
    (endpoint,) = monitor["spec"]["endpoints"]
    (tmp_path / "token").write_text(scraper)
    scrape = {
        "job_name": "springtide",
        "metrics_path": endpoint["path"],
        "authorization": {"credentials_file": str(tmp_path / "token")},
        "static_configs": [{"targets": [httpx.URL(hub.url).netloc.decode()]}],
        "scrape_interval": "1s",
        "scrape_timeout": "1s",
    }
    port = free_port()
    config = yaml.safe_dump({"scrape_configs": [scrape]})
    with (
        allowed(cluster, objects),
        unpacked_programs.prometheus(program, config, tmp_path, port) as log,
    ):

        def scraped() -> bool:
            try:
                query = {"query": "springtide_ticks_total"}
                found = httpx.get(f"http://127.0.0.1:{port}/api/v1/query", params=query).raise_for_status()
            except httpx.HTTPError:
                return False
            return bool(found.json()["data"]["result"])

        until(scraped, f"a scrape, whose log is {log}")


def test_an_account_without_the_right_is_refused_in_words(hub: KubeHub, cluster: Cluster, place: str) -> None:
    refused = answer(hub, token_of(cluster, place, "default"))
    assert refused.status_code == 403
    assert refused.json()["message"] == (
        f"The account “system:serviceaccount:{place}:default” may not read the metrics."
    )
    assert "nonResourceURLs: [/metrics]" in refused.json()["hint"]


def test_a_token_that_the_cluster_does_not_know_opens_nothing(hub: KubeHub, scraper: str) -> None:
    head, body, signature = scraper.split(".")
    for token in (f"{head}.{body}.{signature[::-1]}", "a.b.c", f"a.b.{'c' * 9000}"):
        assert answer(hub, token).status_code == 401


def test_an_account_of_the_cluster_reads_the_metrics_and_nothing_else(
    hub: KubeHub, cluster: Cluster, objects: list[dict[str, Any]], scraper: str
) -> None:
    with allowed(cluster, objects):
        until(lambda: answer(hub, scraper).status_code == 200, "the right is known")
        for path in ("pool", "jobs", "me", "admin"):
            assert answer(hub, scraper, path).status_code in {401, 404}, path
        assert answer(hub, scraper, method="POST").status_code == 405

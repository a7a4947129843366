"""The service as the chart configures it, with the rights of the chart's account, at work on a real control plane.

Hub, proxy and service are processes of this machine; pods run on fake nodes.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from clusters.chart import UNCHECKED, Helm, Template, volumes, write_config
from clusters.chart_machine import (
    PATIENCE_S,
    Machine,
    Ports,
    logged_in,
    made_secrets,
    own_hub_values,
    run_own_hub,
    run_part,
)
from clusters.cluster import Cluster, until
from clusters.dra_driver import DraDriver, dra_driver, gpus
from traitlets.config.loader import PyFileConfigLoader

from springtide.scheduler.client import Client, PoolError
from springtide.scheduler.wire import Submission

RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted", "springtide.io/project": "vision"}


def test_the_service_knows_the_admins_groups_and_leads_of_the_charts_hub(
    template: Template, tmp_path: Path
) -> None:
    lead = {
        "name": "vision-admin",
        "scopes": ["custom:springtide:project-admin!group=vision"],
        "groups": ["vision-leads"],
    }
    config = {
        "JupyterHub": {"load_groups": {"vision": ["susan"]}, "load_roles": [lead]},
        "GenericOAuthenticator": {"admin_users": ["jemma"], "client_secret": "hidden"},
    }
    objects = template({"hub": {"admins": ["alice"], "config": config}})
    directory = write_config(objects, "springtide", tmp_path / "service")
    assert "hidden" not in (directory / "service.json").read_text()
    settings = PyFileConfigLoader("springtide_config.py", path=str(directory)).load_config().Springtide
    assert settings.fault_recipients == ["alice", "jemma"]
    assert settings.configured_groups == {"vision": ["susan"]}
    assert settings.configured_roles == [{**lead, "users": []}]


class Installed:
    """An installation whose pods are processes here, but for those of jobs.

    It has two nodes with four GPUs, and one with eight that ``driver`` publishes.
    """

    def __init__(self, cluster: Cluster, namespace: str, pool: Client, driver: DraDriver) -> None:
        self.cluster = cluster
        self.driver = driver
        self.namespace = namespace
        self.pool = pool

    def pods(self, job: str) -> list[dict[str, Any]]:
        return self.cluster.items(
            f"/api/v1/namespaces/{self.namespace}/pods", labelSelector=f"springtide.io/job={job}"
        )

    def of_gang(self, plural: str, job: str) -> list[str]:
        selected = f"springtide.io/job={job}"
        group = "/api/v1" if plural == "services" else "/apis/networking.k8s.io/v1"
        found = self.cluster.items(f"{group}/namespaces/{self.namespace}/{plural}", labelSelector=selected)
        return [made["metadata"]["name"] for made in found]

    def until_state(self, job: str, state: str) -> None:
        until(lambda: self.pool.job(job).state == state, f"{job} is {state}", timeout_s=PATIENCE_S)


@pytest.fixture
def installed(cluster: Cluster, tmp_path: Path) -> Iterator[Installed]:
    helm, machine, ports = Helm(tmp_path / "helm", cluster.env), Machine(tmp_path), Ports()
    with (
        cluster.namespace(RESTRICTED) as namespace,
        volumes(cluster, namespace),
        dra_driver(cluster, namespace) as driver,
    ):
        labels = {"springtide.io/pool": namespace, "springtide.io/environment": "train"}
        cluster.add_fake_nodes(2, gpus=4, labels=labels, prefix=namespace)
        of_one_type = {**labels, "springtide.io/gpu-type": "gpu"}
        (node,) = cluster.add_fake_nodes(1, labels=of_one_type, prefix=f"claimed-{namespace}", resources={})
        driver.publish(node, gpus(node, 8))
        values = own_hub_values(machine, ports, {"grace": 1, "min_runtime": 0})
        devices = {"enabled": True, "deviceClass": driver.name, "driver": driver.name}
        values["train"] = {"nodeSelector": {"springtide.io/pool": namespace}, "devices": devices}
        try:
            helm.run("install", "springtide", str(helm.chart), "-n", namespace, UNCHECKED, values=values)
            objects = helm.template(values, namespace=namespace)
            url = run_own_hub(machine, objects, ports)
            token = cluster.token_of(namespace, "springtide")
            environment = {"KUBECONFIG": str(cluster.kubeconfig_for(token, tmp_path / "kubeconfig"))}
            run_part(machine, objects, "service", made_secrets(objects), environment=environment)
            machine.until_service_answers(url)
            with (
                logged_in(url, "susan") as susan,
                Client(f"{url}/services/springtide", susan.token, timeout=PATIENCE_S) as pool,
            ):
                yield Installed(cluster, namespace, pool, driver)
        finally:
            machine.stop()
            helm.run("uninstall", "springtide", "-n", namespace, "--ignore-not-found")


@pytest.mark.timeout(3 * PATIENCE_S)
def test_jobs_run_with_the_rights_that_the_chart_gives(installed: Installed) -> None:
    cluster, namespace, pool = installed.cluster, installed.namespace, installed.pool
    gang = pool.submit(Submission(argv=["train"], gpus=1, workers=2)).id
    until(lambda: len(installed.pods(gang)) == 2, "the pods are made", timeout_s=PATIENCE_S)
    installed.until_state(gang, "running")
    [first, second] = installed.pods(gang)
    assert {pod["spec"]["priorityClassName"] for pod in (first, second)} == {f"{namespace}-springtide-train"}
    assert {pod["spec"]["containers"][0]["image"] for pod in (first, second)} == {"springtide/notebook:0.2.0"}
    assert len(installed.of_gang("services", gang)) == len(installed.of_gang("networkpolicies", gang)) == 1
    for pod in (first, second):
        cluster.end_pod(namespace, pod["metadata"]["name"], 0)
    installed.until_state(gang, "succeeded")
    until(lambda: not installed.pods(gang), "the pods are gone", timeout_s=PATIENCE_S)
    until(lambda: not installed.of_gang("services", gang), "the gang's Service is gone", timeout_s=PATIENCE_S)
    until(
        lambda: not installed.of_gang("networkpolicies", gang), "the gang's policy is gone", timeout_s=PATIENCE_S
    )

    driver = installed.driver
    big = pool.submit(Submission(argv=["train"], gpus=8)).id
    installed.until_state(big, "running")
    [pod] = installed.pods(big)
    assert len(driver.devices(namespace)[pod["metadata"]["name"]]) == 8
    cluster.end_pod(namespace, pod["metadata"]["name"], 0)
    installed.until_state(big, "succeeded")
    until(lambda: not driver.claims(namespace), "no claim is left", timeout_s=PATIENCE_S)

    with pytest.raises(PoolError, match="evil"):
        pool.submit(Submission(argv=["train"], image="evil/image"))

    path = f"/apis/springtide.io/v1alpha1/namespaces/{namespace}/springtidejobs"
    cluster.request(
        "POST",
        path,
        {
            "apiVersion": "springtide.io/v1alpha1",
            "kind": "SpringtideJob",
            "metadata": {"name": "from-git"},
            "spec": {"command": ["train"]},
        },
    )

    def state() -> str:
        return str(cluster.request("GET", f"{path}/from-git").get("status", {}).get("state"))

    until(lambda: state() == "running", "the SpringtideJob runs", timeout_s=PATIENCE_S)
    cluster.request("DELETE", f"{path}/from-git")
    until(lambda: not cluster.exists(f"{path}/from-git"), "the SpringtideJob is cancelled", timeout_s=PATIENCE_S)

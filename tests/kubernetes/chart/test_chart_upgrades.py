"""An earlier chart is upgraded to this one under running and waiting jobs, with its store and its TrainJobs.

`earlier/springtide.tgz` is the chart as it was before TrainJobs had a schema, and another kind. The service of
each release is the present one, with the settings, the account and the definitions of that release. The store is
given an earlier schema before the upgrade.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
import yaml
from clusters.chart import CHART, UNCHECKED, Helm, volumes
from clusters.cluster import Cluster, until
from clusters.train_job_definition import (
    DEFINITION,
    DEFINITIONS,
    EARLIER_DEFINITION,
    EARLIER_FILE,
    FILE,
    define,
    takes,
)
from patience import PATIENCE_S
from pools.pool_process import ServiceProcess
from servers.ports import free_port

from springtide.scheduler.executors.kubernetes.settings import KubernetesSettings

EARLIER = Path(__file__).with_name("earlier") / "springtide.tgz"
EARLIER_SCHEMA = "0028"
EARLIER_STORE = Path(__file__).parents[2] / "store" / "schemas" / f"{EARLIER_SCHEMA}.sql"
LATER_ROWS = ("DELETE FROM ledger_sums WHERE step > 86400",)
"""Take away the rows of the schemas after `EARLIER_SCHEMA`, which add nothing else but tables."""
HEAD = "SELECT version_num FROM alembic_version"


@dataclass
class Installed:
    """A release on fake nodes whose service runs as a process beside the cluster."""

    cluster: Cluster
    helm: Helm
    namespace: str
    state: Path
    port: int = field(default_factory=free_port)
    service: ServiceProcess | None = None

    @property
    def store(self) -> Path:
        return self.state / "springtide.sqlite"

    def helm_run(self, command: str, chart: Path | str, *options: str, values: Any = None) -> None:
        waits = ("--wait", "--timeout", f"{PATIENCE_S:.0f}s")
        self.helm.run(command, "springtide", str(chart), "-n", self.namespace, *waits, *options, values=values)

    def begin(self) -> None:
        """Begin the service that the release describes, with the rights that it gives."""
        at = f"/api/v1/namespaces/{self.namespace}/configmaps/springtide"
        chart = json.loads(self.cluster.request("GET", at)["data"]["service.json"])["settings"]
        given = {**chart["kubernetes"], "images": chart["images"], "run_as": os.geteuid() or 1000}
        settings = msgspec.convert({**given, "state_dir": self.state}, KubernetesSettings)
        token = self.cluster.token_of(self.namespace, "springtide")
        kubeconfig = self.cluster.kubeconfig_for(token, self.state / "kubeconfig")
        self.service = ServiceProcess(
            self.state,
            projects={"vision": (8, ("susan",))},
            port=self.port,
            cluster=settings,
            kubeconfig=kubeconfig,
            train_jobs=tuple(chart["train_jobs"]),
        )
        self.service.begin()

    def end(self) -> None:
        """End the service, as the pod of a Deployment that is recreated."""
        if self.service is not None and self.service.runs:
            self.service.leave()

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Return the answer of the service; an empty object while it is away."""
        url = f"http://127.0.0.1:{self.port}/services/springtide/api/v1{path}"
        try:
            answer = httpx.request(
                method,
                url,
                json=body,
                headers={"Authorization": "token susan"},
                timeout=PATIENCE_S,
                trust_env=False,
            )
        except httpx.HTTPError:
            return {}
        return answer.json() if answer.is_success else {}

    def submit(self, name: str, gpus: int) -> str:
        return str(
            self.ask("POST", "/jobs", {"argv": ["train"], "name": name, "gpus": gpus, "project": "vision"})["id"]
        )

    def until_state(self, job: str, state: str) -> dict[str, Any]:
        """Wait until a job is in a state; return it."""
        seen: list[dict[str, Any]] = [{}]

        def reached() -> bool:
            seen[0] = self.ask("GET", f"/jobs/{job}")
            return seen[0].get("state") == state

        until(reached, f"{job} is {state}", timeout_s=PATIENCE_S)
        return seen[0]

    def waiting(self) -> list[str]:
        """Return the jobs that wait, in the order in which they run."""
        jobs = [job for job in self.ask("GET", "/jobs?limit=100").get("items", ()) if job["state"] == "queued"]
        return [job["id"] for job in sorted(jobs, key=lambda job: job["place"])]

    def objects(self, plural: str) -> str:
        return f"/apis/springtide.io/v1alpha1/namespaces/{self.namespace}/{plural}"

    def object(self, name: str, plural: str = "springtidejobs") -> dict[str, Any]:
        found: dict[str, Any] = self.cluster.request("GET", f"{self.objects(plural)}/{name}")
        return found

    def state_of(self, name: str, plural: str) -> str | None:
        """Return the state in an object's status, None if it has none or is not there."""
        if not self.cluster.exists(f"{self.objects(plural)}/{name}"):
            return None
        state: str | None = self.object(name, plural).get("status", {}).get("state")
        return state

    def until_object(self, name: str, state: str, plural: str = "springtidejobs") -> dict[str, Any]:
        """Wait until an object's status has a state; return it."""
        until(
            lambda: self.state_of(name, plural) == state,
            f"{plural}/{name} is {state}",
            timeout_s=PATIENCE_S,
        )
        return self.object(name, plural)

    def pod(self, job: str) -> dict[str, Any]:
        """Return the only pod of a job."""
        path = f"/api/v1/namespaces/{self.namespace}/pods"
        [found] = self.cluster.items(path, labelSelector=f"springtide.io/job={job}")
        return found

    def succeed(self, job: str) -> None:
        """Have a job run to its end."""
        self.until_state(job, "running")
        self.cluster.end_pod(self.namespace, self.pod(job)["metadata"]["name"], 0)
        self.until_state(job, "succeeded")

    def schema(self) -> str:
        with closing(sqlite3.connect(self.store)) as store:
            return str(store.execute(HEAD).fetchone()[0])

    def set_schema(self, revision: str) -> None:
        with closing(sqlite3.connect(self.store)) as store, store:
            store.execute("UPDATE alembic_version SET version_num = ?", (revision,))

    def make_store_earlier(self) -> str:
        """Take away what later schemas added; return the present schema."""
        present = self.schema()
        with closing(sqlite3.connect(self.store)) as store, store:
            with closing(sqlite3.connect(":memory:")) as earlier:
                earlier.executescript(EARLIER_STORE.read_text())
                later = tables(store) - tables(earlier)
            for taken in (*(f"DROP TABLE {table}" for table in later), *LATER_ROWS):
                store.execute(taken)
        self.set_schema(EARLIER_SCHEMA)
        return present


def tables(store: sqlite3.Connection) -> set[str]:
    """Return the names of the tables of a store."""
    return {name for (name,) in store.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}


def definition(cluster: Cluster) -> dict[str, Any]:
    """Return the schema of TrainJobs that the cluster has."""
    [version] = cluster.request("GET", EARLIER_DEFINITION)["spec"]["versions"]
    found: dict[str, Any] = version["schema"]["openAPIV3Schema"]
    return found


def is_gone(cluster: Cluster, path: str) -> bool:
    return not cluster.exists(path)


@pytest.fixture
def earlier(cluster: Cluster, tmp_path: Path) -> Iterator[Installed]:
    """The earlier chart, installed by Helm with its definition of TrainJobs."""
    for present in (DEFINITION, EARLIER_DEFINITION):
        if cluster.exists(present):
            cluster.request("DELETE", present)
            until(partial(is_gone, cluster, present), "the present definitions are gone")
    state = tmp_path / "state"
    state.mkdir()
    with cluster.namespace({"springtide.io/project": "vision"}) as home, volumes(cluster, home):
        labels = {"springtide.io/pool": home, "springtide.io/environment": "train"}
        cluster.add_fake_nodes(1, labels=labels, prefix=f"{home}-train")
        [core] = cluster.add_fake_nodes(1, gpus=0, labels={"springtide.io/pool": home}, prefix=f"{home}-core")
        there = {"nodeSelector": {"kubernetes.io/hostname": core}}
        values = {
            **dict.fromkeys(("service", "hub", "proxy"), there),
            "train": {"nodeSelector": {"springtide.io/pool": home}, "cpuPerGpu": 1, "memoryPerGpu": 1},
        }
        installed = Installed(cluster, Helm(tmp_path / "helm", cluster.env), home, state)
        try:
            installed.helm_run("install", EARLIER, UNCHECKED, values=values)
            until(lambda: takes(cluster, "trainjobs"), "TrainJobs can be stored")
            yield installed
        finally:
            installed.end()
            installed.helm.run("uninstall", "springtide", "-n", home, "--ignore-not-found")
            define(cluster)
            for path in map(installed.objects, ("trainjobs", "springtidejobs")):
                for found in cluster.items(path):
                    at = f"{path}/{found['metadata']['name']}"
                    cluster.request("PATCH", at, {"metadata": {"finalizers": None}})
                cluster.request("DELETE", path)


def test_an_upgrade_from_an_earlier_chart_and_a_rollback_leave_jobs_and_their_order_alone(
    cluster: Cluster, earlier: Installed
) -> None:
    before_crd = definition(cluster)
    earlier.begin()
    until(lambda: earlier.ask("GET", "/jobs"), "the service answers", timeout_s=PATIENCE_S)
    running = earlier.submit("running", 8)
    earlier.until_state(running, "running")
    waiting = [earlier.submit(name, 8) for name in ("second", "third")]
    body = {"apiVersion": "springtide.io/v1alpha1", "kind": "TrainJob", "metadata": {"name": "digits"}}
    path = earlier.objects("trainjobs")
    cluster.request("POST", path, {**body, "spec": {"command": ["train"], "gpus": 8}})
    train_job = earlier.until_object("digits", "queued", "trainjobs")
    waiting.append(train_job["status"]["jobId"])
    assert earlier.waiting() == waiting
    pod = earlier.pod(running)
    earlier.end()
    newest = earlier.make_store_earlier()

    # As docs/kubernetes.md says: the definitions, then the release.
    for file in (FILE, EARLIER_FILE):
        given = yaml.safe_load(file.read_text())
        at = f"{DEFINITIONS}/{given['metadata']['name']}"
        cluster.request("PATCH", at, given, "application/apply-patch+yaml", fieldManager="kubectl", force="true")
    earlier.helm_run("upgrade", CHART, UNCHECKED, "--reset-then-reuse-values")
    assert definition(cluster) != before_crd
    earlier.begin()
    until(lambda: earlier.ask("GET", "/jobs"), "the upgraded service answers", timeout_s=PATIENCE_S)
    assert earlier.schema() == newest
    assert earlier.waiting() == waiting
    same = earlier.until_state(running, "running")
    assert [attempt["number"] for attempt in same["attempts"]] == [1]
    assert earlier.pod(running)["metadata"]["uid"] == pod["metadata"]["uid"]
    converted = earlier.until_object("digits", "queued")
    assert converted["status"]["jobId"] == train_job["status"]["jobId"]
    until(lambda: not cluster.exists(f"{path}/digits"), "the TrainJob is gone")
    assert earlier.waiting() == waiting
    earlier.succeed(running)
    earlier.until_state(waiting[0], "running")

    # A rollback brings the objects back, not the store: the previous service refuses it and says so.
    earlier.end()
    earlier.helm.run("rollback", "springtide", "1", "-n", earlier.namespace, "--wait")
    earlier.set_schema("newer")
    earlier.begin()
    assert earlier.service is not None
    assert earlier.service.died() == 1
    said = (earlier.state / "service.log").read_text()
    assert "was written by a newer Springtide" in said
    assert f"schema newer, here {newest}" in said
    assert earlier.pod(waiting[0])["status"]["phase"] == "Running"
    assert earlier.object("digits")["metadata"]["uid"] == converted["metadata"]["uid"]

    earlier.helm_run("upgrade", CHART, UNCHECKED, "--reset-then-reuse-values")
    earlier.set_schema(newest)
    earlier.begin()
    for job in waiting:
        earlier.succeed(job)
    ended = earlier.until_object("digits", "succeeded")
    assert ended["metadata"]["uid"] == converted["metadata"]["uid"]
    until(lambda: not earlier.object("digits")["metadata"].get("finalizers"), "it is let go")

"""SpringtideJobs of a real cluster, taken in by a real engine that runs them as processes on this machine."""

from __future__ import annotations

import asyncio
import secrets
import shutil
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from clusters.api_relay import ApiRelay
from clusters.chart import Helm, of_all, of_kind
from clusters.cluster import Cluster, until
from patience import PATIENCE_S
from stores.new_store import open_store

from springtide.hub_extension.train_jobs import TrainJobs
from springtide.hub_extension.train_jobs.kinds import SPRINGTIDE_JOB, TRAIN_JOB, Kind
from springtide.scheduler import model, wire
from springtide.scheduler.engine import EngineSettings, JobFilter, open_engine
from springtide.scheduler.executors.base import InventoryChanged
from springtide.scheduler.executors.local import LocalExecutor
from springtide.scheduler.kube import Api, connect
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.telemetry.machine import SimulatedMachine

OBJECTS = "/apis/springtide.io/v1alpha1/namespaces/{}/{}"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
POOL = "train-jobs"
RULES = [
    {
        "apiGroups": ["springtide.io"],
        "resources": ["springtidejobs", "trainjobs"],
        "verbs": ["get", "list", "watch", "patch"],
    },
    {
        "apiGroups": ["springtide.io"],
        "resources": ["springtidejobs/status", "trainjobs/status"],
        "verbs": ["patch"],
    },
    {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get"]},
]
RBAC = "/apis/rbac.authorization.k8s.io/v1"
RIGHTS = {
    "Role": "namespaces/{}/roles",
    "RoleBinding": "namespaces/{}/rolebindings",
    "ClusterRole": "clusterroles",
    "ClusterRoleBinding": "clusterrolebindings",
}
IMAGES = ("registry.test/train:1", "registry.test/team/*")
WAITS = """
import os, pathlib, sys, time
while not pathlib.Path(sys.argv[1]).exists():
    if os.path.exists(os.environ["SPRINGTIDE_PAUSE_FILE"]):
        sys.exit(75)
    time.sleep(0.02)
print("done", flush=True)
sys.exit(int(sys.argv[2]))
"""


class GrowingMachine:
    """A machine of 4 train GPUs that can be given more while it runs."""

    def __init__(self) -> None:
        self.gpus = 4
        self._machine = SimulatedMachine(5, 1)

    def grow(self, count: int) -> None:
        self.gpus += count
        self._machine = SimulatedMachine(self.gpus + 1, 1)

    def __getattr__(self, name: str) -> object:
        return getattr(self._machine, name)


class Pool:
    """A pool of 4 simulated train GPUs, whose service can be started and stopped."""

    def __init__(self, directory: Path, kubeconfig: Path, name: str, namespaces: tuple[str, ...] = ()) -> None:
        self.directory = directory
        self.kubeconfig = kubeconfig
        self.name = name
        self.namespaces = namespaces
        self.policies: dict[Kind, str] = {}
        self.settings = EngineSettings(policy=model.Settings(grace=5.0), images=IMAGES)
        self._stack = AsyncExitStack()
        self.requests = 0
        self.on_request: Callable[[str, str], Awaitable[None]] | None = None
        self.on_rekey: Callable[[], None] | None = None
        self.seconds = None
        self.machine = GrowingMachine()

    async def start(self, *, listening: bool = True) -> None:
        async with AsyncExitStack() as stack:
            store = open_store(self.directory)
            stack.callback(store.close)
            projects = {"vision": {"quota": 4}, "speech": {"quota": 0}}
            machine: Any = self.machine
            executor = LocalExecutor(self.directory, machine)
            self.engine = await open_engine(store, executor, self.settings, projects=projects)
            stack.push_async_callback(self.engine.stop)
            api = connect(self.kubeconfig)
            stack.push_async_callback(api.close)
            self._count(api)
            self._watch_keys()
            if listening:
                ticks = time.monotonic if self.seconds is None else lambda: self.seconds
                self.front = TrainJobs(
                    self.engine, api, self.name, namespaces=self.namespaces, policies=self.policies, ticks=ticks
                )
                await stack.enter_async_context(self.front)
            self._stack = stack.pop_all()

    def _count(self, api: Api) -> None:
        ask: Any = api._request

        async def counted(method: str, path: str, **more: Any):
            self.requests += 1
            if self.on_request is not None:
                await self.on_request(method, path)
            return await ask(method, path, **more)

        vars(api)["_request"] = counted

    def _watch_keys(self) -> None:
        rekey = self.engine.rekey

        async def watched(*given: str) -> None:
            if self.on_rekey is not None:
                self.on_rekey()
            await rekey(*given)

        vars(self.engine)["rekey"] = watched

    def lose_everything(self) -> None:
        """Forget all jobs, while stopped."""
        shutil.rmtree(self.directory)
        self.directory.mkdir()

    def hear(self, job: wire.Job) -> None:
        """Let the front door hear of a job as the engine tells it."""
        data = msgspec.to_builtins(job)
        self.front._job_changed(wire.Event(kind="job", data=data))

    def add_gpus(self, count: int) -> None:
        self.machine.grow(count)
        self.engine._parts.mailbox.post(InventoryChanged())

    async def stop(self) -> None:
        await self._stack.aclose()

    async def restart(self) -> None:
        await self.stop()
        await self.start()

    async def jobs(self) -> list[wire.Job]:
        return (await self.engine.jobs(JobFilter(), None, 100)).items

    async def job(self, uid: str, user: str = "kubernetes:vision") -> wire.Job:
        found = await self.engine.job_of_key(user, uid)
        assert found is not None
        return found

    async def until_state(self, uid: str, state: str) -> wire.Job:
        try:
            async with asyncio.timeout(PATIENCE_S):
                while (job := await self.job(uid)).state != state:
                    await asyncio.sleep(0.02)
        except TimeoutError:
            pytest.fail(f"The job is {job.state} ({job.reason}), not {state}")
        return job


class Team:
    """A namespace and its SpringtideJobs, as ``kubectl`` in the hands of its people."""

    def __init__(self, cluster: Cluster, namespace: str, directory: Path, kind: Kind = SPRINGTIDE_JOB) -> None:
        self.cluster = cluster
        self.namespace = namespace
        self.kind = kind
        self.path = OBJECTS.format(namespace, kind.resource.plural)
        self.directory = directory

    @property
    def earlier(self) -> Team:
        """The same with its TrainJobs."""
        return Team(self.cluster, self.namespace, self.directory, TRAIN_JOB)

    async def ask(self, method: str, path: str, body: object = None, **more: str):
        return await asyncio.to_thread(self.cluster.request, method, path, body, **more)

    async def label(self, **labels: str | None) -> None:
        given: dict[str, Any] = {f"springtide.io/{name}": value for name, value in labels.items()}
        await self.ask("PATCH", f"/api/v1/namespaces/{self.namespace}", {"metadata": {"labels": given}})

    async def apply(self, name: str = "digits", metadata: dict | None = None, **spec: Any):
        """An object that waits for a file of its name and then ends well, unless another command is given."""
        spec.setdefault("command", [sys.executable, "{code}/wait.py", str(self.directory / name), "0"])
        spec.setdefault("files", {"wait.py": WAITS})
        body = {
            "apiVersion": "springtide.io/v1alpha1",
            "kind": self.kind.name,
            "metadata": {"name": name, **(metadata or {})},
            "spec": spec,
        }
        return await self.ask("POST", self.path, body)

    async def delete(self, name: str = "digits") -> None:
        await self.ask("DELETE", f"{self.path}/{name}")

    async def get(self, name: str = "digits"):
        return await self.ask("GET", f"{self.path}/{name}")

    async def patch(self, name: str, body: object):
        return await self.ask("PATCH", f"{self.path}/{name}", body)

    async def exists(self, name: str = "digits") -> bool:
        return await asyncio.to_thread(self.cluster.exists, f"{self.path}/{name}")

    def let(self, name: str = "digits") -> None:
        (self.directory / name).touch()

    async def until(self, state: str, name: str = "digits"):
        """Wait until the status says so; the object."""
        return await self.until_true(lambda found: found.get("status", {}).get("state") == state, name)

    async def until_true(self, right, name: str = "digits"):
        found = {}
        try:
            async with asyncio.timeout(PATIENCE_S):
                while not right(found := await self.get(name)):
                    await asyncio.sleep(0.05)
        except TimeoutError:
            pytest.fail(f"{name} never was as it should be; it is {yaml.safe_dump(found)}")
        return found

    async def until_gone(self, name: str = "digits") -> None:
        try:
            async with asyncio.timeout(PATIENCE_S):
                while await self.exists(name):
                    await asyncio.sleep(0.05)
        except TimeoutError:
            pytest.fail(f"{name} is still there: {yaml.safe_dump(await self.get(name))}")

    async def row(self, name: str = "digits") -> dict[str, Any]:
        """The line that ``kubectl get springtidejobs`` prints, by column."""
        headers = {"Accept": TABLE}
        client = self.cluster._client
        table = (await asyncio.to_thread(client.get, f"{self.path}/{name}", headers=headers)).json()
        columns = [column["name"] for column in table["columnDefinitions"] if not column["priority"]]
        return dict(zip(columns, table["rows"][0]["cells"], strict=False))


@pytest.fixture
def team(cluster: Cluster, crd: None, tmp_path: Path) -> Iterator[Team]:
    """A namespace of project vision. Its SpringtideJobs are gone before another test's pool could take them in."""
    with cluster.namespace({"springtide.io/project": "vision", "springtide.io/pool": POOL}) as name:
        flags = tmp_path / "flags"
        flags.mkdir()
        team = Team(cluster, name, flags)
        yield team
        for path in (team.earlier.path, team.path):
            for one in cluster.items(path):
                cluster.request("PATCH", f"{path}/{one['metadata']['name']}", {"metadata": {"finalizers": None}})
            cluster.request("DELETE", path)
            assert not cluster.items(path)


@pytest.fixture
async def pool(team: Team, tmp_path: Path):
    """A pool that takes in the SpringtideJobs of the whole cluster, as far as they are its own."""
    async with started(Pool(tmp_path / "pool", team.cluster.kubeconfig, POOL)) as one:
        yield one


@pytest.fixture
def api_relay(cluster: Cluster, tmp_path: Path) -> Iterator[ApiRelay]:
    """The way of the distant pool to the API server."""
    with ApiRelay.start(cluster, tmp_path / "relay.kubeconfig") as relay:
        yield relay


@pytest.fixture
async def distant_pool(team: Team, api_relay: ApiRelay, tmp_path: Path):
    """A pool whose way to the API server can be cut."""
    async with started(Pool(tmp_path / "pool", api_relay.kubeconfig, POOL)) as one:
        yield one


@pytest.fixture
async def narrow_pool(team: Team, tmp_path: Path):
    """A pool whose service may only do what it needs, in that one namespace."""
    account, rules = {"metadata": {"name": "springtide"}}, {"metadata": {"name": "springtide"}, "rules": RULES}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "springtide"}
    subject = {"kind": "ServiceAccount", "name": "springtide", "namespace": team.namespace}
    binding = {"metadata": {"name": "springtide"}, "roleRef": role, "subjects": [subject]}
    rbac = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{team.namespace}"
    await team.ask("POST", f"/api/v1/namespaces/{team.namespace}/serviceaccounts", account)
    await team.ask("POST", f"{rbac}/roles", rules)
    await team.ask("POST", f"{rbac}/rolebindings", binding)
    token = team.cluster.token_of(team.namespace, "springtide")
    kubeconfig = team.cluster.kubeconfig_for(token, tmp_path / "kubeconfig")
    with Cluster.attach(tmp_path / "narrow", kubeconfig) as narrow:
        await asyncio.to_thread(until, partial(narrow.may_list, team.path), "the role is known")
    async with started(Pool(tmp_path / "pool", kubeconfig, POOL, (team.namespace,))) as one:
        yield one


@pytest.fixture
def doomed_team(cluster: Cluster, crd: None, tmp_path: Path) -> Iterator[Team]:
    """A team whose namespace a test deletes."""
    name = f"doomed-{secrets.token_hex(4)}"
    labels = {"springtide.io/project": "vision", "springtide.io/pool": POOL}
    cluster.request("POST", "/api/v1/namespaces", {"metadata": {"name": name, "labels": labels}})
    team = Team(cluster, name, tmp_path)
    yield team
    for one in cluster.items(team.path):
        cluster.request("PATCH", f"{team.path}/{one['metadata']['name']}", {"metadata": {"finalizers": None}})


@pytest.fixture
async def charted_pool(cluster: Cluster, namespace: str, doomed_team: Team, tmp_path: Path):
    """A pool whose service has the rights that the chart gives it for the train jobs of that team's namespace."""
    values = {"trainJobs": {"namespaces": [doomed_team.namespace]}}
    objects = Helm(tmp_path / "helm").template(values, namespace=namespace)
    account = of_kind(objects, "ServiceAccount")["springtide"]
    rights = [(f"{RBAC}/{path}", made) for kind, path in RIGHTS.items() for made in of_all(objects, kind)]
    cluster.request("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts", account)
    try:
        for path, made in rights:
            cluster.request("POST", path.format(made["metadata"].get("namespace")), made)
        token = cluster.token_of(namespace, account["metadata"]["name"])
        kubeconfig = cluster.kubeconfig_for(token, tmp_path / "kubeconfig")
        with Cluster.attach(tmp_path / "narrow", kubeconfig) as narrow:
            await asyncio.to_thread(until, partial(narrow.may_list, doomed_team.path), "the rights are known")
        async with started(Pool(tmp_path / "pool", kubeconfig, POOL, (doomed_team.namespace,))) as one:
            yield one
    finally:
        for path, made in rights:
            metadata = made["metadata"]
            if "namespace" not in metadata:
                cluster.request("DELETE", f"{path}/{metadata['name']}")


@asynccontextmanager
async def started(pool: Pool):
    """The pool while it runs; at the end all its jobs are cancelled."""
    pool.directory.mkdir()
    await pool.start()
    yield pool
    async with asyncio.timeout(PATIENCE_S):
        while unfinished := [job for job in await pool.jobs() if not model.JobState(job.state).final]:
            for job in unfinished:
                with suppress(Refusal):
                    await pool.engine.cancel(job.id, "test")
            await asyncio.sleep(0.05)
    await pool.stop()

"""A day on a cluster: people submit jobs all the time, and what happens to clusters happens to this one.

API server, controllers and scheduler are real, and so is the pool's service; nodes and programs are played.
"""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event, RLock, Thread
from typing import Any

import httpx
from cluster_day.admission import Admission
from cluster_day.judge import Judge, SeenPod, Wanted
from cluster_day.programs import Programs
from cluster_day.watching import Watch
from clusters.audit import Request
from clusters.cluster import Cluster, ClusterError
from pools.pool_process import ServiceProcess
from servers.ports import free_port

from springtide.scheduler.executors.kubernetes.settings import KubernetesSettings

IMAGE = "registry.test/train:1"
POOL, ENVIRONMENT = "springtide.io/pool", "springtide.io/environment"
QUOTAS = {"vision": 8, "speech": 8, "lang": 4}
USER = "susan"
OWN_FAULT = 3
SHAPES = ((1, 1), (1, 1), (2, 1), (4, 1), (8, 1), (2, 2), (1, 4))
"""GPUs of a worker and workers of the jobs that people submit."""
LOOK_S = 0.2
LOGGED_WITHIN_S = 5.0
"""Time within which the API server's log has who asked for the end of a pod that is gone."""
FINAL = ("succeeded", "failed", "cancelled")
CONFLICT = 409


@dataclass(frozen=True, slots=True)
class Plan:
    """How a day goes: ``unfinished`` jobs at any time, of ``shortest`` to ``longest`` seconds, under faults.

    A fault stays up to ``hold`` seconds, and at least until it has had an effect, for which it waits ``patience``
    seconds; the first time a registry is away that takes ``registry_away`` seconds or more. ``limit`` and
    ``said_within`` are the judge's, for quotas and for words about a fault. The service is killed during the share
    ``kills`` of the faults. A webhook that does not answer is given up after ``webhook_timeout`` seconds.
    """

    unfinished: int = 16
    shortest: float = 1.0
    longest: float = 5.0
    nodes: int = 4
    hold: float = 0.0
    patience: float = 120.0
    registry_away: float = 0.0
    limit: float | None = None
    said_within: float | None = None
    kills: float = 0.0
    slowest_end: float = 0.5
    webhook_timeout: int = 5
    directly: bool = False


@dataclass(slots=True)
class DayFigures:
    """What happened, and what went wrong.

    The judge may have missed the ends of ``unsure`` jobs: only what the pool says of them is checked. For
    ``excused`` of the ``seconds`` of the day something kept all jobs waiting. ``served_after`` has the seconds
    from the ends of such outages until no project waits within its quota. ``not_ready_after`` has those from the
    silence of nodes until the cluster counts them as not ready, ``said_after`` those from there, or from another
    fault, until the pool says so, by who says it. ``cut_short`` counts the pods that the API server removed at
    once although they were to have time to end. ``stories`` tell how the problems came about.
    """

    jobs: int = 0
    train_jobs: int = 0
    own_faults: int = 0
    attempts: int = 0
    unsure: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    without_effect: Counter[str] = field(default_factory=Counter)
    kills: int = 0
    events: int = 0
    longest: float = 0.0
    seconds: float = 0.0
    excused: float = 0.0
    served_after: list[float] = field(default_factory=list)
    not_ready_after: list[float] = field(default_factory=list)
    said_after: Mapping[str, list[float]] = field(default_factory=dict)
    cut_short: int = 0
    problems: list[str] = field(default_factory=list)
    stories: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Submitted:
    """A submission, by its name; ``job`` is the pool's id once it is known, ``state`` that at its end."""

    name: str
    project: str
    gpus: int
    workers: int
    seconds: float
    code: int
    as_train_job: bool
    accepted: bool = False
    job: str = ""
    state: str = ""

    @property
    def argv(self) -> list[str]:
        """The command of the job."""
        return ["work", f"{self.seconds:.1f}", str(self.code)]


class Day:
    """The world of one day: pool, people, nodes and judge, while it is `running`."""

    def __init__(self, cluster: Cluster, namespace: str, team: str, path: Path, seed: int, plan: Plan) -> None:
        self.cluster, self.namespace, self.team, self.plan = cluster, namespace, team, plan
        self.rng = random.Random(seed)
        self.figures = DayFigures()
        self.judge = Judge(QUOTAS, plan.limit, plan.said_within)
        self.pods: dict[str, dict[str, Any]] = {}
        self.nodes = [f"{namespace}-{index}-0" for index in range(plan.nodes)]
        self._path = path
        self._state = path / "state"
        self._state.mkdir()
        self.programs = Programs(cluster, self._state)
        self.admission = Admission(random.Random(seed), plan.slowest_end)
        self._lock = RLock()
        self._work = random.Random(f"work {seed}")
        self._submitted: dict[str, Submitted] = {}
        self._excused = False
        self._accepting = True
        self._leaving = Event()
        self._failure: BaseException | None = None
        port = free_port()
        settings = KubernetesSettings(
            namespace=namespace,
            pool=namespace,
            state_dir=self._state,
            images=(IMAGE,),
            jobs_host_path=str(self._state),
            node_selector={POOL: namespace},
            run_as=os.geteuid() or 1000,
            cpu_per_gpu=1.0,
            memory_per_gpu=1.0,
            bind_directly=plan.directly,
        )
        self.service = ServiceProcess(
            self._state,
            projects={name: (quota, (USER,)) for name, quota in QUOTAS.items()},
            port=port,
            cluster=settings,
            kubeconfig=cluster.kubeconfig,
            train_jobs=(team,),
        )
        url = f"http://127.0.0.1:{port}/services/springtide/api/v1"
        self._asking = httpx.Client(base_url=url, timeout=plan.patience, trust_env=False)
        self._asking.headers["Authorization"] = f"token {USER}"

    # ---------- the world

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Let the world live in this block."""
        watches = [
            Watch(self.cluster, "/api/v1/pods", self._see_pod, self._missed_some),
            Watch(self.cluster, "/api/v1/nodes", self._see_node, lambda: None),
        ]
        timeout_s = self.plan.webhook_timeout
        with contextlib.ExitStack() as stack:
            serving = self.admission.serving(self.cluster, self.namespace, self._path, timeout_s=timeout_s)
            stack.enter_context(serving)
            for watch in watches:
                stack.enter_context(watch.running())
            for name in self.nodes:
                self.add_node(name)
            stack.callback(self._asking.close)
            self.service.begin()
            stack.callback(self._end_service)
            self.until(self.answers, "the service answers")
            life = Thread(target=self._live, daemon=True, name="day")
            life.start()
            stack.callback(life.join)
            stack.callback(self._leaving.set)
            yield
        self.figures.problems += [f"a watch failed: {watch.failure!r}" for watch in watches if watch.failure]

    def _end_service(self) -> None:
        if self.service.runs:
            self.service.kill()

    def add_node(self, name: str) -> None:
        """Add a node of 8 GPUs to the pool."""
        labels = {POOL: self.namespace, ENVIRONMENT: "train"}
        self.cluster.add_fake_nodes(1, labels=labels, prefix=name.removesuffix("-0"))

    def _see_pod(self, kind: str, found: dict[str, Any], missed: bool) -> None:
        if found["metadata"]["namespace"] not in (self.namespace, self.team):
            return
        at, requests = time.time(), list[Request]()
        if kind == "DELETED" and found["status"].get("phase") == "Running" and not missed:
            self._look_at_node(found["spec"]["nodeName"])
            requests = self._requests_to_end(found["metadata"])
        with self._lock:
            if kind == "DELETED":
                self.pods.pop(found["metadata"]["uid"], None)
            else:
                self.pods[found["metadata"]["uid"]] = found
            self.judge.see_pod(kind, found, missed=missed, at=at, requests=requests)
            self.programs.see_pod(kind, found, missed)

    def _missed_some(self) -> None:
        with self._lock:
            self.judge.miss_some()

    def _look_at_node(self, name: str) -> None:
        """Have the judge know the present state of a node: its watch may be later than that of pods."""
        with contextlib.suppress(httpx.HTTPError, ClusterError):
            listed = self.cluster.request("GET", "/api/v1/nodes", fieldSelector=f"metadata.name={name}")
            for found in listed["items"]:
                self._see_node("MODIFIED", found, False)
            if not listed["items"]:
                with self._lock:
                    meta = {"name": name, "resourceVersion": listed["metadata"]["resourceVersion"]}
                    self.judge.see_node("DELETED", {"metadata": meta}, at=time.time())

    def _requests_to_end(self, meta: Mapping[str, Any]) -> list[Request]:
        """Return the requests about a pod that is gone; its end is seen before it is logged who asked for it."""
        requests: list[Request] = []
        deadline = time.monotonic() + LOGGED_WITHIN_S
        while not any(request.removes for request in requests) and time.monotonic() < deadline:
            time.sleep(LOOK_S)
            requests = self.cluster.requests_about(meta["namespace"], meta["name"])
        return requests

    def _see_node(self, kind: str, found: dict[str, Any], _missed: bool) -> None:
        if (found["metadata"].get("labels") or {}).get(POOL) == self.namespace:
            with self._lock:
                self.judge.see_node(kind, found, at=time.time())

    def _live(self) -> None:
        looked = time.monotonic()
        try:
            while not self._leaving.wait(LOOK_S):
                self.programs.end_some()
                if self._accepting:
                    self._submit_one()
                    self._learn_of_train_jobs()
                with self._lock:
                    before, looked = looked, time.monotonic()
                    excused = self._excused
                    self.judge.look(time.time(), excused=excused)
                    self.figures.seconds += looked - before
                    self.figures.excused += excused * (looked - before)
                    if not self.service.runs:
                        self.figures.problems.append("the service ended by itself")
                        self.service.begin()
        except BaseException as error:
            self._failure = error
            raise

    def until(self, holds: Callable[[], Any], what: str, patience: float | None = None) -> bool:
        """Wait until the condition holds. Raises `TimeoutError`, unless a ``patience`` in seconds is given."""
        deadline = time.monotonic() + (self.plan.patience if patience is None else patience)
        while not holds():
            if self._failure is not None:
                raise RuntimeError("The day broke off") from self._failure
            if time.monotonic() > deadline:
                if patience is not None:
                    return False
                raise TimeoutError(f"Waited in vain until {what}\n{self.words()}")
            time.sleep(0.1)
        return True

    @contextlib.contextmanager
    def outage(self) -> Iterator[None]:
        """Excuse the pool from its quotas in this block, as nothing can start, and wait until they are served."""
        self._excused = True
        try:
            yield
        finally:
            self._excused = False
        limit, ended = self.plan.limit, time.monotonic()
        if limit is not None and self.until(self._served, "the quotas are served", patience=2 * limit):
            self.figures.served_after.append(time.monotonic() - ended)

    def _served(self) -> bool:
        with self._lock:
            return not set(self.judge.starved())

    def held_on(self, node: str) -> list[SeenPod]:
        """Return the pods that have GPUs on a node."""
        with self._lock:
            return [pod for pod in self.judge.pods.values() if pod.node == node and pod.holds]

    # ---------- people

    def ask(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> dict[str, Any] | None:
        """Return the answer of the pool's service, None while it is away."""
        try:
            answer = self._asking.request(method, path, json=body)
        except httpx.HTTPError:
            return None
        if answer.status_code in (429, 503):
            return None
        answer.raise_for_status()
        return dict(answer.json())

    def answers(self) -> bool:
        """Return whether the service answers."""
        return self.ask("GET", "/jobs?limit=1") is not None

    def kill_service(self) -> None:
        """Kill the service, start it again, and wait until it answers."""
        with self._lock:
            self.service.kill()
            self.service.begin()
        self.figures.kills += 1
        self.until(self.answers, "the service answers again")

    def shown_jobs(self) -> list[dict[str, Any]] | None:
        """Return the unfinished jobs as the service shows them, None while it is away."""
        answer = self.ask("GET", "/jobs?limit=100&state=queued,starting,running,pausing,cancelling,ending")
        return None if answer is None else list(answer["items"])

    def jobs(self) -> list[dict[str, Any]]:
        """Return the unfinished jobs as the service shows them; none while it is away."""
        return self.shown_jobs() or []

    def train_jobs(self) -> list[dict[str, Any]]:
        """Return the SpringtideJobs of the team."""
        return self.cluster.items(f"/apis/springtide.io/v1alpha1/namespaces/{self.team}/springtidejobs")

    def _submit_one(self) -> None:
        with self._lock:
            unfinished = len(self.judge.wanted)
        lost = next((each for each in self._submitted.values() if not each.accepted), None)
        if lost is None and unfinished >= self.plan.unfinished:
            return
        self._submit(lost or self._draw())

    def _draw(self) -> Submitted:
        rng, number = self._work, len(self._submitted)
        as_train_job = number % 4 == 3
        gpus, workers = rng.choice(SHAPES)
        project = "vision" if as_train_job else rng.choice(list(QUOTAS))
        if project == "lang" and gpus * workers > QUOTAS[project]:
            gpus = workers = 1
        seconds = rng.uniform(self.plan.shortest, self.plan.longest)
        code = OWN_FAULT if number % 10 == 5 else 0
        return Submitted(f"job-{number}", project, gpus, workers, seconds, code, as_train_job)

    def _submit(self, each: Submitted) -> None:
        self._submitted[each.name] = each
        if each.as_train_job:
            spec = {"command": each.argv, "gpus": each.gpus, "workers": each.workers}
            body = {
                "apiVersion": "springtide.io/v1alpha1",
                "kind": "SpringtideJob",
                "metadata": {"name": each.name},
                "spec": spec,
            }
            path = f"/apis/springtide.io/v1alpha1/namespaces/{self.team}/springtidejobs"
            try:
                self.cluster.request("POST", path, body)
            except httpx.HTTPError:
                return
            except ClusterError as error:
                each.accepted = error.status == CONFLICT
            else:
                each.accepted = True
            return
        options: dict[str, Any] = {"gpus": each.gpus, "workers": each.workers}
        body = {"argv": each.argv, "name": each.name, "key": each.name, "project": each.project, **options}
        answer = self.ask("POST", "/jobs", body)
        if answer is not None:
            self._know(each, answer["id"])

    def _know(self, each: Submitted, job: str) -> None:
        each.job, each.accepted = job, True
        with self._lock:
            self.judge.accept(Wanted(job, each.project, each.gpus, each.workers, each.code))

    def _learn_of_train_jobs(self) -> None:
        """Learn the ids of the SpringtideJobs that the pool has taken in."""
        unknown = {each.name: each for each in self._submitted.values() if each.as_train_job and not each.job}
        if not unknown:
            return
        with contextlib.suppress(ClusterError, httpx.HTTPError):
            for found in self.train_jobs():
                job = found.get("status", {}).get("jobId")
                if job and found["metadata"]["name"] in unknown:
                    self._know(unknown[found["metadata"]["name"]], job)

    # ---------- its end

    def finish(self) -> DayFigures:
        """Take in no more jobs, wait for the ends of all, and return the verdict."""
        self._accepting = False
        left = [len(self._submitted)]

        def fewer() -> bool:
            left.append(self._unfinished())
            return left[-1] < left[0]

        while left[-1]:
            left[:] = left[-1:]
            self.until(fewer, f"one of the last {left[0]} jobs ends")
        self.until(lambda: not self._pool_pods(), "all pods are gone")
        with self._lock:
            figures, judge = self.figures, self.judge
            for each in self._submitted.values():
                self._check(each, judge.completed[each.job])
            figures.problems += judge.problems
            figures.events, figures.longest, figures.said_after = judge.events, judge.longest, judge.said_after
            figures.cut_short = judge.cut_short
            figures.stories = self._stories()
        return figures

    def _stories(self) -> list[str]:
        """Return the problems, each with what happened to its pods and their nodes, and who asked for it."""
        trail, lines = self.judge.trail, list[str]()
        for problem, uids in self.judge.about.items():
            requests = [one for subject in trail.subjects(uids) for one in self.cluster.requests_about(*subject)]
            lines += [problem, *(f"    {line}" for line in trail.story(uids, requests))]
        return lines

    def _pool_pods(self) -> list[str]:
        path = f"/api/v1/namespaces/{self.namespace}/pods"
        return [pod["metadata"]["name"] for pod in self.cluster.items(path, labelSelector="springtide.io/job")]

    def _unfinished(self) -> int:
        """Return the number of submissions that have not ended, after another look at them."""
        statuses = {found["metadata"]["name"]: found.get("status", {}) for found in self.train_jobs()}
        for each in self._submitted.values():
            if each.state:
                continue
            if each.as_train_job:
                status = statuses.get(each.name, {})
                each.job = each.job or status.get("jobId") or ""
                ended = status.get("state") if status.get("state") in FINAL else ""
                each.state = ended or ("lost" if each.accepted and each.name not in statuses else "")
                if not each.accepted:
                    self._submit(each)
            elif each.job:
                answer = self.ask("GET", f"/jobs/{each.job}") or {}
                each.state = answer["state"] if answer.get("ended") is not None else ""
            else:
                self._submit(each)
        return sum(not each.state for each in self._submitted.values())

    def _check(self, each: Submitted, completed: int) -> None:
        figures = self.figures
        figures.jobs += 1
        figures.train_jobs += each.as_train_job
        figures.own_faults += bool(each.code)
        job = self.ask("GET", f"/jobs/{each.job}") or {}
        figures.attempts += len(job.get("attempts") or ())
        expected = ("failed", 0) if each.code else ("succeeded", 1)
        if each.job in self.judge.unsure:
            figures.unsure += 1
            completed = expected[1]
        if (each.state, completed) != expected:
            said = f"{each.name} ({each.job}) is {each.state}, and pods ran it to its end {completed} times"
            self.judge.report(f"{said}: {job.get('error')}", self.judge.uids_of(each.job))

    def words(self) -> str:
        """Return what is there, for failure messages."""
        pods = [
            (pod["metadata"]["name"], pod["spec"].get("nodeName"), pod["status"].get("phase"))
            for pod in list(self.pods.values())
        ]
        jobs = [(job["name"], job["state"], (job.get("reason") or {}).get("text")) for job in self.jobs()]
        log = (self._state / "service.log").read_text()[-3000:]
        return "\n".join(map(str, [*pods, *jobs, *self._stories(), log]))

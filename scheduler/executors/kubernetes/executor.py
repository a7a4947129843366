"""The executor for a cluster."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from springtide.scheduler.executors.base import (
    NO_WORKSPACES,
    AttemptKey,
    AttemptSpec,
    AttemptStatus,
    BlockedError,
    ExecutorError,
    Exit,
    ExitKind,
    LogPiece,
    NodeGroup,
    NodeRequest,
    Observation,
    Report,
    RunningNotebook,
    SavedCheckpoint,
    StaleEpochError,
    WorkspacePlaces,
    exit_of,
)
from springtide.scheduler.executors.checkpoint_files import CheckpointFiles
from springtide.scheduler.executors.credentials import Credentials
from springtide.scheduler.executors.file_executor import FileExecutor
from springtide.scheduler.executors.files.layout import JobPlaces
from springtide.scheduler.executors.files.plain import make_directory
from springtide.scheduler.executors.files.reader import BatchedCalls
from springtide.scheduler.executors.kubernetes.agents import NodeAgents
from springtide.scheduler.executors.kubernetes.api_stalls import ApiStalls
from springtide.scheduler.executors.kubernetes.attempts import Attempt, Verdict
from springtide.scheduler.executors.kubernetes.launch_records import LaunchRecords
from springtide.scheduler.executors.kubernetes.monitor import AttemptMonitor
from springtide.scheduler.executors.kubernetes.node_groups.placeholders import Placeholders
from springtide.scheduler.executors.kubernetes.objects import manifests, names
from springtide.scheduler.executors.kubernetes.objects.manifests import LaunchRecord
from springtide.scheduler.executors.kubernetes.pods import CREATED_TOGETHER, PodControl
from springtide.scheduler.executors.kubernetes.sessions import open_session
from springtide.scheduler.executors.kubernetes.settings import KubernetesSettings
from springtide.scheduler.executors.kubernetes.start_failures import says_nothing, verdict_of
from springtide.scheduler.executors.session import Session, SessionSpec
from springtide.scheduler.executors.supervisor.records import KILL, KILL_NOW, PAUSE
from springtide.scheduler.kube import Api, ApiError
from springtide.scheduler.model import Checkpoint, Node
from springtide.scheduler.resources.device_claims import is_claimed
from springtide.scheduler.telemetry.sample import GpuSample
from springtide.scheduler.wording import count, given, listed

log = logging.getLogger(__name__)

THREADS = 4
"""Maximum number of threads that write to the volume of jobs, besides the one for requests to end attempts."""


class KubernetesExecutor(FileExecutor):
    """Runs attempts as pods of a cluster, one for each worker.

    The cluster is the source of truth. Supervisors record how workers ended on the volume as well, so that no end
    is missed if a pod is deleted while the service is away. The jobs' files are on a volume that service and pods
    share. With ``credentials`` jobs can use the pool's API. ``now`` is the wall clock.
    """

    name = "kubernetes"
    concurrent_launches = CREATED_TOGETHER
    checks_starts = True

    def __init__(
        self,
        settings: KubernetesSettings,
        api: Api,
        *,
        credentials: Credentials | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._settings = settings
        self.takes_sessions = settings.sessions
        self._api = api
        self._records = LaunchRecords(settings, _owner(settings), credentials)
        super().__init__(self._records.layout, CheckpointFiles(strict=True), now)
        self._stalls = ApiStalls()
        self._pods = PodControl(api, settings, self._stalls)
        self._agents = None if settings.agent_port is None else NodeAgents(settings, api, settings.agent_port)
        self.measures_gpus = self._agents is not None
        self._started = AsyncExitStack()

    # ---------- start and stop

    async def start(self, listener: Callable[[Observation], None]) -> None:
        """Prepare the volume, list nodes and pods, and follow them from there."""
        settings = self._settings
        if settings.run_as is None and os.geteuid() == 0:
            raise ExecutorError(
                "The cluster assigns the user of jobs (run_as is None), and jobs share files with the service: "
                "that has to run as the same user, in a pod of the same namespace, not as root."
            )
        if settings.run_as is not None and os.geteuid() not in (0, settings.run_as):
            raise ExecutorError(
                f"Jobs run as user {settings.run_as} (run_as), and share files with the service: that has to run "
                f"as the same user, not as {os.geteuid()}."
            )
        if bool(settings.jobs_claim) == bool(settings.jobs_host_path):
            raise ExecutorError("Set one of jobs_claim and jobs_host_path: the volume with the files of jobs.")
        self._volume = BatchedCalls(THREADS, "launch-records")
        self._started.callback(self._volume.close)
        self._ending_thread = ThreadPoolExecutor(1, thread_name_prefix="end-requests")
        self._started.callback(self._ending_thread.shutdown, wait=False)
        try:
            await asyncio.to_thread(self._records.prepare_volume)
        except OSError as error:
            raise ExecutorError(f"{settings.state_dir} cannot be used: {error.strerror}.") from error
        self._monitor = AttemptMonitor(
            settings, self._api, self._pods, self._records, self._stalls, report=listener, now=self._now
        )
        self._started.push_async_callback(self._monitor.close)
        cluster = self._monitor.cluster
        self._placeholders = None
        if cluster.inventory.groups:
            self._placeholders = Placeholders(
                settings, self._api, cluster.inventory.groups, cluster.other_pod_changed
            )
            self._started.push_async_callback(self._placeholders.close)
        try:
            await self._monitor.start()
            if self._placeholders is not None:
                await self._placeholders.start()
            if self._agents is not None:
                self._started.push_async_callback(self._agents.close)
                await self._agents.start()
                await self._read_agents(self._agents, NO_WORKSPACES)
        except ApiError as error:
            await self.stop()
            raise ExecutorError(f"The cluster cannot be used: {error}") from error

    async def stop(self) -> None:
        """Stop following the cluster; pods keep running."""
        await self._started.aclose()

    # ---------- launch, pause, kill

    async def launch(self, spec: AttemptSpec) -> None:
        """Record the attempt on the volume, then create its pods and, for a gang, its Service."""
        key = spec.key
        self._layout.attempt(key)
        names.check_job(key.job)
        async with self._lock(key):
            attempt = self._monitor.attempts.get(key)
            if attempt is None:
                attempt = await self._new_attempt(spec)
            else:
                await self._volume.call(partial(self._epoch.check, spec.epoch))
            if attempt.needs_pods:
                await self._monitor.create_pods(attempt)

    async def check(self, spec: AttemptSpec) -> Exit | None:
        """Check by a dry run of the first pod that the API would accept the attempt's pods."""
        try:
            await self._pods.check_pod(self._make_record(spec))
        except ApiError as error:
            if says_nothing(error):
                raise ExecutorError(
                    f"The cluster does not say whether it takes the job: {error.message}"
                ) from error
            verdict = verdict_of(error)
            return Exit(verdict.kind, self._now(), detail=verdict.detail, block=verdict.block)
        except ExecutorError as refused:
            return exit_of(refused, self._now())
        return None

    async def _new_attempt(self, spec: AttemptSpec) -> Attempt:
        """Return a new attempt whose record is on the volume; one that can never start is concluded at once."""
        try:
            made: LaunchRecord | ExecutorError = self._make_record(spec)
        except ExecutorError as refused:
            made = refused
        try:
            recorded = await self._volume.call(partial(self._begin, spec, made))
            if recorded is not None:
                return self._monitor.recall(recorded)
        except (HasRunError, StaleEpochError):
            raise
        except ExecutorError as refused:
            block = refused.block if isinstance(refused, BlockedError) else None
            kind = ExitKind.BLOCKED if isinstance(refused, BlockedError) else ExitKind.REFUSED
            verdict = Verdict(kind, str(refused), block=block)
            attempt = Attempt(spec.key, len(spec.placement), spec.grace, verdict=verdict)
            attempt.ending = True
            attempt.workers = {worker.rank: worker for worker in spec.placement}
            self._monitor.attempts[spec.key] = attempt
            await self._monitor.conclude(attempt)
            return attempt
        except OSError as error:
            why = error.strerror or str(error)
            raise ExecutorError(f"The job's files cannot be written: {why} ({self._layout.jobs}).") from error
        assert isinstance(made, LaunchRecord)
        attempt = Attempt(spec.key, len(spec.placement), spec.grace, made)
        self._monitor.attempts[spec.key] = attempt
        return attempt

    def _make_record(self, spec: AttemptSpec) -> LaunchRecord:
        """Return the launch record of an attempt. Raises `ExecutorError` if it can never run."""
        nodes = self._nodes_of(spec)
        image = manifests.choose_image(spec.options.image, self._settings)
        home = self._monitor.cluster.home_of(spec.user)
        part = self._monitor.cluster.inventory.part_without_gpus()
        record = self._records.make_record(spec, image, home, nodes, part)
        return replace(record, bound=True) if self._binds(record) else record

    def _begin(self, spec: AttemptSpec, made: LaunchRecord | ExecutorError) -> AttemptStatus | None:
        """Return the recorded end of an attempt; without one, write its launch record, or raise why there is none.

        Works on the volume, in a thread. Raises `HasRunError` if the record of its end cannot be read, and
        `StaleEpochError` if the pool has a newer owner.
        """
        self._epoch.check(spec.epoch)
        try:
            recorded = self._records.recorded_end(spec.key)
        except msgspec.DecodeError:
            raise HasRunError(f"Attempt {spec.key.attempt} of {spec.key.job} has run already.") from None
        if recorded is None:
            if isinstance(made, ExecutorError):
                raise made
            self._records.save_record(made, spec.files, spec.history, spec.packed)
        return recorded

    def _binds(self, record: LaunchRecord) -> bool:
        """Return whether the pods of an attempt are created on their nodes.

        Only the cluster's scheduler allocates devices, and has a volume made for a claim that waits for its first
        pod.
        """
        settings = self._settings
        if any(is_claimed(resource) for resource in record.resources):
            return False
        return settings.bind_directly and self._monitor.cluster.are_bound(manifests.claims(record, settings))

    def _nodes_of(self, spec: AttemptSpec) -> list[Node | None]:
        """Return the node of each worker's GPUs, None for a worker without GPUs.

        Raises `BlockedError` for GPUs that are not there.
        """
        inventory = self._monitor.cluster.inventory
        nodes: list[Node | None] = []
        for worker in spec.placement:
            if not worker.gpus:
                nodes.append(None)
                continue
            node = inventory.train_node(worker.node)
            if node is None and inventory.has_seen(worker.node):
                raise BlockedError(f"The node {worker.node} has left the pool.")
            if node is None:
                raise BlockedError(f"There is no train node {given(worker.node)} in the cluster.")
            if self._settings.bind_directly and not node.available:
                raise BlockedError(f"The node {worker.node} takes no new pods at present.")
            if not all(0 <= index < node.gpus for index in worker.gpus):
                raise BlockedError(
                    f"Node {given(node.name)} has {count(node.gpus, 'GPU')}, not those numbered {worker.gpus}."
                )
            nodes.append(node)
        return nodes

    async def pause(self, key: AttemptKey) -> None:
        """Record the request, then delete the pods with the grace period of the job."""
        await self._request_end(key, PAUSE)

    async def kill(self, key: AttemptKey, *, now: bool = False) -> None:
        """Record the request, then delete the pods with the grace period of the job, or of a few seconds."""
        await self._request_end(key, KILL_NOW if now else KILL)

    async def _request_end(self, key: AttemptKey, request: str) -> None:
        """Record a request for the attempt, and ask the cluster to delete its pods.

        Others wait for its GPUs, so that it does not wait for the threads that launches use.
        """
        self._epoch.check()
        async with self._lock(key):
            attempt = self._monitor.attempts.get(key)
            if attempt is None:
                if await self._volume.call(partial(self._records.is_done, key)):
                    return
                raise ExecutorError(f"Attempt {key.attempt} of {key.job} is not known here.")
            if attempt.gone:
                return
            strongest = attempt.request(request)
            try:
                await asyncio.get_running_loop().run_in_executor(
                    self._ending_thread, self._records.record_request, key, strongest
                )
            except OSError as error:
                raise ExecutorError(f"The job cannot be asked to stop: {error.strerror}.") from error
            try:
                await self._monitor.delete_pods(attempt, attempt.time_to_end + manifests.KILL_MARGIN)
            except ApiError as error:
                raise ExecutorError(f"The cluster cannot be asked to end the job: {error}") from error

    async def discard(self, key: AttemptKey) -> None:
        """Mark the attempt as done on the volume, and delete its pods."""
        async with self._lock(key):
            attempt = self._monitor.attempts.get(key)
            if attempt is None:
                return
            if not attempt.gone:
                raise ExecutorError(f"Attempt {key.attempt} of {key.job} has not ended.")
            await self._volume.call(partial(self._records.mark_done, attempt.status))
            await self._release(attempt)
        self._locks.pop(key, None)

    async def _release(self, attempt: Attempt) -> None:
        """Release the pods of an attempt that have ended, and delete its Service.

        One that came up after the end of the attempt is reported again by the next event of it.
        """
        try:
            await asyncio.gather(*(self._pods.release_pod(pod) for _, pod in attempt.ended_pods))
            if attempt.size > 1:
                await self._pods.delete_service(attempt.key)
        except ApiError as error:
            raise ExecutorError(f"The pods of {attempt.key.job} cannot be released: {error}") from error
        self._monitor.discard(attempt.key)

    async def recall(self, key: AttemptKey) -> AttemptStatus | None:
        """Follow an attempt again whose end is recorded on the volume, or whose pods were deleted meanwhile."""
        async with self._lock(key):
            attempt = self._monitor.attempts.get(key)
            if attempt is None:
                with suppress(msgspec.DecodeError):
                    recorded = await self._volume.call(partial(self._records.recorded_end, key))
                    attempt = None if recorded is None else self._monitor.recall(recorded)
                if attempt is None:
                    attempt = await self._monitor.recall_running(key)
            return None if attempt is None else attempt.status

    async def open_session(self, key: AttemptKey, spec: SessionSpec) -> Session:
        """Have the relay in the pod of a worker start a program."""
        if not self.takes_sessions:
            raise ExecutorError("Programs cannot be run inside jobs of this pool: the admin has switched it off.")
        return await open_session(self._api, self._settings.namespace, key, spec)

    async def remove(self, job: str) -> None:
        """Release all pods of an ended job, and delete its files."""
        attempts = [attempt for key, attempt in self._monitor.attempts.items() if key.job == job]
        if any(not attempt.gone for attempt in attempts):
            raise ExecutorError(f"The job {job} has not ended.")
        for attempt in attempts:
            await self._release(attempt)
        await self._remove_files(job)

    # ---------- state and files

    async def inventory(self, workspaces: WorkspacePlaces = NO_WORKSPACES) -> tuple[Node, ...]:
        """Return the cluster's nodes with labels of the pool."""
        nodes = self._monitor.nodes(workspaces)
        return nodes if self._agents is None else self._agents.describe(nodes)

    async def node_groups(self) -> tuple[NodeGroup, ...]:
        """Return the node groups of the settings."""
        return self._monitor.cluster.inventory.node_groups()

    async def request_nodes(self, numbers: Mapping[str, int] | None) -> Mapping[str, NodeRequest]:
        """Keep a placeholder pod for each requested node."""
        if self._placeholders is None:
            return {}
        await self._volume.call(self._epoch.check)
        return await self._placeholders.request(numbers)

    async def notebooks(self) -> Sequence[RunningNotebook]:
        """Return the notebooks whose pods are on nodes of the pool."""
        if not self._monitor.cluster.fresh:
            raise ExecutorError("The cluster does not answer, so the notebooks that run are not known.")
        return self._monitor.cluster.notebooks()

    async def end_notebook(self, user: str, server: str) -> None:
        """Refuse: the service deletes no pods of other namespaces."""
        found = [
            notebook for notebook in await self.notebooks() if (notebook.user, notebook.server) == (user, server)
        ]
        where = listed([notebook.place for notebook in found])
        raise ExecutorError(f"The service may not delete pods of notebooks. Delete {where} with kubectl.")

    async def gpu_samples(self, workspaces: WorkspacePlaces) -> Sequence[GpuSample]:
        """Return the present reports of the nodes' agents."""
        if self._agents is None:
            return ()
        if await self._read_agents(self._agents, workspaces):
            self._monitor.cluster.report_change()
        return self._agents.samples()

    async def _read_agents(self, agents: NodeAgents, workspaces: WorkspacePlaces) -> bool:
        """Ask all agents; return whether the GPUs of any slots have changed."""
        await agents.read()
        return agents.assign(self._monitor.nodes(workspaces), self._monitor.places(workspaces))

    async def attempts(self) -> tuple[AttemptStatus, ...]:
        """Return the attempts that have or had pods, or were refused before."""
        attempts = self._monitor.attempts
        return tuple(attempts[key].status for key in sorted(attempts) if attempts[key].exists)

    async def read_log(self, job: str, rank: int, offset: int, limit: int) -> LogPiece:
        """Return part of the log, and poll its growth sooner."""
        self._monitor.hurry(job)
        return await super().read_log(job, rank, offset, limit)

    async def read_reports(self, job: str, after: int, limit: int) -> tuple[Report, ...]:
        """Return reports, and poll new ones sooner."""
        self._monitor.hurry(job)
        return await super().read_reports(job, after, limit)

    async def list_checkpoints(self, spec: AttemptSpec, also: str = "") -> tuple[SavedCheckpoint, ...]:
        """Read the job's folders on the jobs' volume; other volumes of its pods are not within reach."""
        return await self._checkpoints.listed(spec, self._layout.job(spec.key.job), self._account, also)

    async def delete_checkpoints(self, spec: AttemptSpec, names: Collection[str], also: str = "") -> None:
        """Delete checkpoints on the jobs' volume."""
        await self._checkpoints.delete(spec, names, self._layout.job(spec.key.job), self._account, also)

    async def copy_checkpoint(
        self, spec: AttemptSpec, name: str, fork: AttemptSpec, also: str = ""
    ) -> Checkpoint | None:
        """Copy a checkpoint within the jobs' volume."""
        its = self._layout.job(fork.key.job)
        await asyncio.to_thread(self._unrecorded.begin, fork.key.job)
        await asyncio.to_thread(make_directory, its.root, 0o711)
        return await self._checkpoints.copy(
            spec,
            name,
            fork,
            places=(self._layout.job(spec.key.job), its),
            seen=JobPlaces(Path(manifests.JOB_ROOT)),
            account=self._account,
            owner=_owner(self._settings),
            also=also,
        )

    @property
    def _account(self) -> dict[str, Any] | None:
        """The account that the files of jobs belong to, None if it is the service's own."""
        owner = _owner(self._settings)
        if owner is None:
            return None
        return {"name": "", "uid": owner[0], "gid": owner[1], "groups": [], "view": []}

    # ---------- underneath


def _owner(settings: KubernetesSettings) -> tuple[int, int] | None:
    """Return the user and group that files of jobs are given to, None if the service runs as that user."""
    if os.geteuid() != 0 or settings.run_as is None or settings.fs_group is None:
        return None
    return settings.run_as, settings.fs_group


class HasRunError(ExecutorError):
    """The attempt has ended before."""

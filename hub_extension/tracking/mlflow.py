"""An MLflow server, by its REST API: an experiment for each project, and a run for each job.

The run is found by its tag ``springtide.job``, and its last report by its tag ``springtide.position``, so
nothing else has to be remembered. MLflow keeps equal values of a step once: a batch may be sent again.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import httpx

from springtide.hub_extension.tracking.tracker import (
    NotTakenError,
    TrackerDownError,
    about,
    parameters,
)
from springtide.scheduler.metrics import NotFinite
from springtide.scheduler.tracking_names import metric_name, whole_step
from springtide.scheduler.wire import Job, Point

TIMEOUT_S: Final = 10.0
"""Maximum time of one step of a request, in seconds."""
MAX_METRICS: Final = 900
"""Maximum number of values in one request; MLflow takes 1,000 values, parameters and tags."""
MAX_TAG: Final = 5_000
"""Maximum number of characters of a tag's or a parameter's value."""
AGAIN: Final = frozenset({401, 403, 407, 408, 425, 429})
"""Statuses that an administrator or time changes, beside those of redirects and of failures."""
STATUSES: Final[Mapping[str, str]] = {"succeeded": "FINISHED", "failed": "FAILED", "cancelled": "KILLED"}
"""MLflow's word for the end of a job; any other job counts as running."""
JOB: Final = "springtide.job"
POSITION: Final = "springtide.position"


class MlflowError(NotTakenError):
    """MLflow refuses a request; ``code`` is its name of the error."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message[:300]}")
        self.code = code


class MlflowRun:
    """The run of a job; see `Run`."""

    def __init__(self, server: Mlflow, run_id: str, position: int, status: str) -> None:
        self.position = position
        self.id = run_id
        self._server = server
        self._status = status

    async def write(self, points: Sequence[Point]) -> None:
        """See `Run.write`."""
        for some in _batches(points):
            metrics = [metric for point in some for metric in _metrics(point)]
            while len(metrics) > MAX_METRICS:
                first, metrics = metrics[:MAX_METRICS], metrics[MAX_METRICS:]
                await self._server.call("POST", "runs/log-batch", run_id=self.id, metrics=first)
            tags = _pairs({POSITION: str(some[-1].seq)})
            await self._server.call("POST", "runs/log-batch", run_id=self.id, metrics=metrics, tags=tags)
            self.position = some[-1].seq

    async def settle(self, job: Job) -> None:
        """See `Run.settle`."""
        status = STATUSES.get(job.state, "RUNNING")
        if status == self._status:
            return
        params = _pairs(parameters(job))
        await self._server.call("POST", "runs/log-batch", run_id=self.id, params=params, tags=_pairs(_tags(job)))
        end = {} if job.ended is None else {"end_time": _milliseconds(job.ended)}
        await self._server.call("POST", "runs/update", run_id=self.id, status=status, **end)
        self._status = status


class Mlflow:
    """The server at the address ``uri``, which browsers open at ``page``; see `Tracker`.

    ``credentials`` are ``user:password``, a token, or empty. With ``trust_env`` the environment may name a proxy.
    """

    name = "MLflow"

    def __init__(self, uri: str, page: str, credentials: str, *, trust_env: bool = False) -> None:
        user, colon, password = credentials.partition(":")
        bearer = {"Authorization": f"Bearer {user}"} if user and not colon else {}
        self._page = page
        self._client = httpx.AsyncClient(
            base_url=f"{uri}/api/2.0/mlflow/",
            auth=(user, password) if colon else None,
            headers=bearer,
            verify=ssl.create_default_context(),
            trust_env=trust_env,
            timeout=TIMEOUT_S,
        )
        self._experiments: dict[str, str] = {}

    async def open(self, job: Job) -> MlflowRun:
        """See `Tracker.open`."""
        try:
            experiment = await self._experiment(job.project) or await self._new_experiment(job.project)
            return await self._found(experiment, job) or await self._created(experiment, job)
        except MlflowError:
            self._experiments.pop(job.project, None)  # it may have been deleted
            raise

    async def address(self, job: Job) -> str | None:
        """See `Tracker.address`."""
        experiment = await self._experiment(job.project)
        run = None if experiment is None else await self._found(experiment, job)
        return None if run is None else f"{self._page}/#/experiments/{experiment}/runs/{run.id}"

    async def close(self) -> None:
        """See `Tracker.close`."""
        await self._client.aclose()

    async def call(self, method: str, path: str, **fields: Any) -> dict[str, Any]:
        """Return the answer to a request. Raises `TrackerDownError`, or `MlflowError` for one that is refused."""
        given: dict[str, Any] = {"params": fields} if method == "GET" else {"json": fields}
        try:
            answer = await self._client.request(method, path, **given)
        except httpx.HTTPError as error:
            raise TrackerDownError(f"it cannot be reached ({type(error).__name__})") from error
        try:
            found = answer.json()
        except ValueError:
            found = None
        status = answer.status_code
        if not isinstance(found, dict) or status in AGAIN or not (200 <= status < 300 or 400 <= status < 500):
            raise TrackerDownError(f"it answers with status {status}")
        if not answer.is_success:
            raise MlflowError(str(found.get("error_code")), str(found.get("message")))
        return found

    async def _experiment(self, project: str) -> str | None:
        """Return the id of a project's experiment, None if there is none."""
        if project not in self._experiments:
            try:
                found = await self.call("GET", "experiments/get-by-name", experiment_name=project)
            except MlflowError as error:
                if error.code == "RESOURCE_DOES_NOT_EXIST":
                    return None
                raise
            self._experiments[project] = str(found["experiment"]["experiment_id"])
        return self._experiments[project]

    async def _new_experiment(self, project: str) -> str:
        made = await self.call("POST", "experiments/create", name=project)
        self._experiments[project] = str(made["experiment_id"])
        return self._experiments[project]

    async def _found(self, experiment: str, job: Job) -> MlflowRun | None:
        wanted = f"tags.`{JOB}` = '{job.id}'"
        found = await self.call("POST", "runs/search", experiment_ids=[experiment], filter=wanted, max_results=1)
        for run in found.get("runs", ()):
            tags = {tag["key"]: tag["value"] for tag in run["data"].get("tags", ())}
            return MlflowRun(self, run["info"]["run_id"], int(tags.get(POSITION, 0)), run["info"]["status"])
        return None

    async def _created(self, experiment: str, job: Job) -> MlflowRun:
        start = _milliseconds(job.submitted if job.started is None else job.started)
        tags = _pairs({JOB: job.id, "mlflow.user": job.user, **_tags(job)})
        made = await self.call(
            "POST", "runs/create", experiment_id=experiment, run_name=job.name, start_time=start, tags=tags
        )
        run_id = made["run"]["info"]["run_id"]
        if params := _pairs(parameters(job)):
            await self.call("POST", "runs/log-batch", run_id=run_id, params=params)
        return MlflowRun(self, run_id, 0, "RUNNING")


def _tags(job: Job) -> dict[str, object]:
    """Return the tags of a run, which describe its job."""
    return {f"springtide.{name}": value for name, value in about(job).items()}


def _pairs(values: Mapping[str, object]) -> list[dict[str, str]]:
    return [{"key": name, "value": str(value)[:MAX_TAG]} for name, value in values.items()]


def _metrics(point: Point) -> Iterator[dict[str, Any]]:
    at, step = _milliseconds(point.at), whole_step(point.step)
    for name, value in point.values.items():
        number = value.value if isinstance(value, NotFinite) else value
        yield {"key": metric_name(name), "value": number, "timestamp": at, "step": step}


def _batches(points: Sequence[Point]) -> Iterator[Sequence[Point]]:
    """Yield the points in groups with at most `MAX_METRICS` values each; a point with more is a group itself."""
    start = count = 0
    for index, point in enumerate(points):
        if index > start and count + len(point.values) > MAX_METRICS:
            yield points[start:index]
            start, count = index, 0
        count += len(point.values)
    if points[start:]:
        yield points[start:]


def _milliseconds(at: float) -> int:
    return max(0, round(at * 1000))

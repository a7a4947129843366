"""Application of the service: one process with store, engine, executor, API and pages, set up by configuration."""

from __future__ import annotations

import asyncio
import difflib
import json
import logging
import os
import signal
import sys
import time
from collections.abc import Iterable
from contextlib import AsyncExitStack
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, NoReturn

import msgspec
from traitlets import Dict, Enum, Float, Integer, List, TraitError, Tuple, Unicode, Union, default
from traitlets.config import Application, Config

from springtide.hub_extension.accounts import whose_accounts
from springtide.hub_extension.cluster.settings import ClusterSettingsError, cluster_settings
from springtide.hub_extension.notifications.channels import Channels
from springtide.hub_extension.service.logs import FORMATS, log_to_stderr
from springtide.hub_extension.service.parent import hub_pid, when_hub_ends
from springtide.hub_extension.service.runtime import BAD_INPUT, Runtime, Setup, StartError
from springtide.hub_extension.service.settings.datasets import DatasetTraits
from springtide.hub_extension.service.settings.faults import FaultTraits
from springtide.hub_extension.service.settings.idle import IdleTraits
from springtide.hub_extension.service.settings.images import ImageTraits
from springtide.hub_extension.service.settings.jobs import JobTraits
from springtide.hub_extension.service.settings.notifications import ChannelError, NotificationTraits
from springtide.hub_extension.service.settings.packages import PackageTraits
from springtide.hub_extension.service.settings.requests import RequestTraits
from springtide.hub_extension.service.settings.tracking import TrackingTraits
from springtide.scheduler.engine.requests import acceptance
from springtide.scheduler.executors.accounts import DEFAULT_UIDS, MACHINE, AccountError, Accounts
from springtide.scheduler.executors.kubernetes.settings import KubernetesSettings
from springtide.scheduler.executors.local.limits import GIB, Limits
from springtide.scheduler.gpu_types import DeclarationError, DeclaredTypes
from springtide.scheduler.model import Order

CONFIG_ENV: Final = "SPRINGTIDE_CONFIG"
CANNOT: Final = 1
LIMITS: Final = ("job_memory", "job_processes", "job_cores", "job_disk", "job_cgroup", "pip_variables")
MIB: Final = 1024 * 1024
MOST_GIB: Final = 1 << 20


class Springtide(
    NotificationTraits,
    FaultTraits,
    PackageTraits,
    IdleTraits,
    JobTraits,
    ImageTraits,
    DatasetTraits,
    RequestTraits,
    TrackingTraits,
    Application,
):
    """The pool's service. The hub starts it; `configure` hands its settings over in ``SPRINGTIDE_CONFIG``."""

    name = "springtide-service"
    version = version("springtide")
    description = "The service of a pool of GPUs: scheduler, API and pages of Springtide."
    aliases = {  # noqa: RUF012 - traitlets reads it from the class
        "config": "Springtide.config_file",
        "state-dir": "Springtide.state_dir",
        "port": "Springtide.port",
        "log-level": "Springtide.log_level",
    }
    flags = {}  # noqa: RUF012 - traitlets reads it from the class

    config_file = Unicode(
        "", help="A configuration file in Python, with lines such as c.Springtide.port = 8090."
    ).tag(config=True)
    state_dir = Unicode("springtide-state", help="Where everything of the pool is kept.").tag(config=True)
    database_url = Unicode(
        help="The store: a file in the state directory unless it is a URL such as postgresql://user@host/name."
    ).tag(config=True)
    ip = Unicode("127.0.0.1", help="The address to listen on.").tag(config=True)
    port = Integer(8090, min=1, max=65535, help="The port to listen on.").tag(config=True)
    allowed_hosts = List(
        Unicode(),
        help="Names that browsers, notebooks and the hub may use for this service (the header Host), as a defence "
        "against DNS rebinding; .example.org stands for a domain and its subdomains. Empty: any. `springtide up` "
        "allows names of the loopback address.",
    ).tag(config=True)
    service_prefix = Unicode(help="The path under which browsers meet the service; the hub tells it.").tag(
        config=True
    )
    simulated_gpus = Union(
        [Integer(min=1), Dict(key_trait=Unicode(), value_trait=Integer(min=1))],
        default_value=None,
        allow_none=True,
        help="Simulate so many GPUs, build and train together, instead of using the machine's; a number for each "
        "GPU type, such as {'t4': 8, 'a100': 4}, simulates several. Without it, GPUs are simulated only where "
        "there are none.",
    ).tag(config=True)
    build_gpus = Union(
        [Integer(min=0), Dict(key_trait=Unicode(), value_trait=Integer(min=0))],
        default_value=0,
        help="So many of the GPUs are for notebooks, those of the rarest type first, or a number for each GPU "
        "type; the rest is the train pool.",
    ).tag(config=True)
    gpu_types = Union(
        [List(Dict()), Dict(key_trait=Unicode(), value_trait=List(Unicode()))],
        default_value={},
        help="GPU types, cheapest first, each with the models that count as one: {'t4': [], 'a100': ['NVIDIA "
        "A100-SXM4-80GB', 'NVIDIA A100-PCIE-40GB']}, or a list with name and models of each. A model that is not "
        "listed is a type of its own.",
    ).tag(config=True)
    projects = Union(
        [List(Dict()), Dict()],
        default_value=[],
        help="The projects of a new pool, oldest first: name, and any of parent, quota, limit, weight, priority, "
        "build_quota. From then on the admin page is where they change.",
    ).tag(config=True)
    order = Enum(
        [order.value for order in Order],
        Order.LEAST_SERVED.value,
        help="How jobs of one project with equal priority are ordered: older first, or the one that has had less "
        "GPU time so far and, as similar jobs tell, needs less.",
    ).tag(config=True)
    min_runtime = Float(30.0, min=0, help="Seconds that a started job is left alone.").tag(config=True)
    grace = Float(30.0, min=0, max=3600, help="Seconds between asking a job to pause and killing it.").tag(
        config=True
    )
    use_half_life = Float(
        86400.0,
        min=60,
        help="Seconds in which half of the GPU time is forgotten that a project had beyond its quota. Of projects "
        "that stand equal the one that had less goes first.",
    ).tag(config=True)
    executor = Enum(
        ["local", "kubernetes"], "local", help="Where jobs run: on this machine, or as pods of a cluster."
    ).tag(config=True)
    kubernetes = Dict(
        key_trait=Unicode(),
        help="The cluster: jobs_claim (the claim of the volume for jobs' files), and any of namespace, pool, "
        "node_selector, topology, tolerations, static_nodes and the other keys that the admin's guide lists.",
    ).tag(config=True)
    images = List(
        Unicode(),
        help="The images that jobs may run in on a cluster, * standing for anything. The first is the default.",
    ).tag(config=True)
    train_jobs = List(
        Unicode(),
        help="The namespaces of the cluster whose TrainJob objects are submitted; ['*'] are all of them.",
    ).tag(config=True)
    accounts = Enum(
        ["own", "shared"],
        None,
        allow_none=True,
        help="Whose rights jobs and notebooks on this machine have: each those of its user's own account, which "
        "needs a hub that runs as root and is the default there, or all those of the hub's account, which means "
        "that all users must trust each other.",
    ).tag(config=True)
    account_uids = Tuple(
        Integer(),
        Integer(),
        default_value=DEFAULT_UIDS,
        help="First and last uid of the accounts that users get who have none on this machine. Nothing but pools "
        "of Springtide may use these uids.",
    ).tag(config=True)
    uid_registry = Unicode(
        str(MACHINE),
        help="The file in which all pools of this machine record which of them has which uids. It has to outlive "
        "a reboot, and to be the same for all pools.",
    ).tag(config=True)
    job_memory = Float(
        0.0,
        min=0,
        help="GiB of memory that each worker of a job may take here if it asks for none; 0 is no limit.",
    ).tag(config=True)
    job_processes = Integer(
        0, min=0, help="Processes and threads that each worker of a job may have on this machine; 0 is no limit."
    ).tag(config=True)
    job_cores = Float(
        0.0,
        min=0,
        help="Cores that each worker of a job may use here if it asks for none, with job_cgroup; 0 is no limit.",
    ).tag(config=True)
    job_disk = Float(
        0.0,
        min=0,
        help="GiB that a job may keep on this machine in checkpoints, outputs, working directory, submitted files "
        "and reports, and in deleted files that it has open. One that keeps more is ended, and says what to "
        "delete. 0 is no limit.",
    ).tag(config=True)
    job_cgroup = Unicode(
        help="A directory of cgroup v2 that was delegated to the service and enforces the limits of jobs. Without "
        "it the kernel's rlimits do: memory for each process, processes for each user, cores not at all."
    ).tag(config=True)
    log_cap = Integer(64 * MIB, min=64 * 1024, help="The most that is kept of each worker's log, in bytes.").tag(
        config=True
    )
    log_lines = Enum(
        list(FORMATS),
        "text",
        help="Lines of the log: text for people, or json, one object a line, for collectors.",
    ).tag(config=True)
    auth_cache = Integer(
        30, min=1, max=60, help="Seconds for which the hub's word on who somebody is and may do is believed."
    ).tag(config=True)
    takeover_wait = Float(
        15.0, min=0, help="Seconds to wait for a former service that still holds the port or the state directory."
    ).tag(config=True)

    @default("service_prefix")
    def _default_service_prefix(self) -> str:
        return os.environ.get("JUPYTERHUB_SERVICE_PREFIX", "/services/springtide/")

    @default("log_level")
    def _default_log_level(self) -> int:
        return logging.INFO

    def configure_from(self, environment: str, arguments: list[str]) -> None:
        """Load the settings: the file's, then the environment's, then the command line's; later ones win.

        Raises `StartError` for invalid settings.
        """
        self.parse_command_line(arguments)
        given = Config(self.config)
        self.update_config(Config({"Springtide": _from_environment(environment)}))
        self.update_config(given)
        if self.config_file:
            handed_over = Config(self.config)
            self._load(Path(self.config_file))
            self.update_config(handed_over)
        known = self.trait_names(config=True)
        for name in sorted(set(self.config.Springtide) - set(known)):
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"Did you mean {close[0]}?" if close else "--help-all lists all."
            raise StartError(f"There is no setting Springtide.{name}. {hint}", BAD_INPUT)

    def _load(self, file: Path) -> None:
        if not file.is_file():
            raise StartError(f"There is no configuration file {file}.", BAD_INPUT)
        try:
            self.load_config_file(str(file), path=None)
        except Exception as error:
            raise StartError(f"The configuration file {file} cannot be read: {error}.", BAD_INPUT) from error

    def exit(self, exit_status: int | str | None = 0) -> NoReturn:
        """Exit the process, as an option of the command line requires."""
        sys.exit(BAD_INPUT if exit_status else 0)

    def setup(self) -> Setup:
        """Return the settings of the running service."""
        state_dir = Path(self.state_dir).expanduser().absolute()
        cluster = self._cluster(state_dir)
        accounts = None if self.executor == "kubernetes" else self._accounts(state_dir)
        return Setup(
            state_dir=state_dir,
            database_url=self.database_url or f"sqlite:///{state_dir / 'springtide.sqlite'}",
            address=(self.ip, self.port),
            allowed_hosts=tuple(self.allowed_hosts),
            prefix=f"/{self.service_prefix.strip('/')}/".replace("//", "/"),
            simulated_gpus=self.simulated_gpus,
            build_gpus=self.build_gpus,
            gpu_types=self._gpu_types(),
            projects=_by_name(self.projects, "projects"),
            order=Order(self.order),
            min_runtime=self.min_runtime,
            grace=self.grace,
            use_half_life=self.use_half_life,
            accounts=accounts,
            limits=self._limits(),
            max_body=self.max_body,
            log_cap=self.log_cap,
            submit_rate=self.submit_rate,
            submit_burst=self.submit_burst,
            queue_cap=self.queue_cap,
            queue_cap_per_user=self.queue_cap_per_user,
            streams_per_user=self.streams_per_user,
            kept_bytes_per_user=self.kept_bytes_per_user,
            kept_bytes_per_project=self.kept_bytes_per_project,
            keep=self.keep_days * 86_400,
            keep_files=self.keep_files_days * 86_400,
            test_run_time=self.test_run_time,
            jobs_without_gpus=self.jobs_without_gpus,
            explore_placements=self.explore_placements,
            ended_bytes_per_user=self.ended_bytes_per_user,
            auth_cache=self.auth_cache,
            takeover_wait=self.takeover_wait,
            version=str(self.version),
            channels=self._channels(),
            faults=self.fault_rules(),
            idle=self.idle_settings(),
            packages=self.package_settings(),
            tracking=self.tracking_settings(),
            cluster=cluster,
            image_contents=self.declared_contents(),
            datasets=self.declared_datasets(cluster=cluster is not None),
            train_jobs=tuple(self.train_jobs),
        )

    def _channels(self) -> Channels:
        """Return the channels of notifications. Raises `StartError` for settings that contradict each other."""
        try:
            return self.channels()
        except ChannelError as error:
            raise StartError(f"Springtide.{error}", BAD_INPUT) from error

    def _gpu_types(self) -> DeclaredTypes:
        """Return the declared GPU types. Raises `StartError` for a model of two types."""
        given = self.gpu_types
        if isinstance(given, list):
            by_name = _by_name(given, "gpu_types")
            given = {name: fields.get("models", []) for name, fields in by_name.items()}
        try:
            return DeclaredTypes.of_setting(msgspec.convert(given, dict[str, list[str]]))
        except (DeclarationError, msgspec.ValidationError) as error:
            raise StartError(f"Springtide.gpu_types: {error}", BAD_INPUT) from error

    def _accounts(self, state_dir: Path) -> Accounts | None:
        """Return the accounts that jobs run as; None for the service's own account.

        Raises `StartError` if jobs cannot run as these accounts.
        """
        try:
            mode = whose_accounts(self.accounts, root=os.geteuid() == 0)
        except AccountError as error:
            raise StartError(str(error), BAD_INPUT) from error
        registry = Path(self.uid_registry).expanduser().absolute()
        return Accounts(state_dir, self.account_uids, registry) if mode == "own" else None

    def _limits(self) -> Limits:
        """Return the resource limits of jobs on this machine.

        Raises `StartError` for a limit that would not be enforced.
        """
        if self.job_cores and not self.job_cgroup:
            raise StartError(
                "Springtide.job_cores needs Springtide.job_cgroup: only a cgroup limits cores.", BAD_INPUT
            )
        cgroup = Path(self.job_cgroup) if self.job_cgroup else None
        for name in ("job_memory", "job_disk"):
            self._check_gib(name)
        memory, disk = round(self.job_memory * GIB), round(self.job_disk * GIB)
        return Limits(memory, self.job_processes, self.job_cores, cgroup, disk)

    def _check_gib(self, name: str) -> None:
        """Raise `StartError` for a number of GiB that was meant as another unit."""
        value = getattr(self, name)
        if value > MOST_GIB:
            raise StartError(
                f"Springtide.{name} = {value:g}: expected GiB, at most {MOST_GIB} (1 PiB). For 50 GiB write 50, "
                "not their bytes or KiB.",
                BAD_INPUT,
            )

    def _cluster(self, state_dir: Path) -> KubernetesSettings | None:
        """Return the settings of the cluster that jobs run on; None if jobs run on this machine.

        Raises `StartError` for settings that contradict each other.
        """
        if self.executor == "local":
            self._refuse(
                ("kubernetes", "images", "image_contents", "train_jobs"),
                "means something on a cluster only; set Springtide.executor = 'kubernetes'",
            )
            return None
        self._refuse(("simulated_gpus", "build_gpus"), "is for one machine; on a cluster its nodes tell")
        self._refuse(("accounts", *LIMITS), "is for one machine; leave it out")
        wrong = acceptance.pattern_list_error(self.images)
        if wrong is not None:
            raise StartError(f"Springtide.images: {wrong}.", BAD_INPUT)
        try:
            return cluster_settings(
                self.kubernetes, state_dir=state_dir, images=tuple(self.images), types=self._gpu_types()
            )
        except ClusterSettingsError as error:
            raise StartError(str(error), BAD_INPUT) from error

    def _refuse(self, names: Iterable[str], why: str) -> None:
        for name in names:
            if getattr(self, name):
                raise StartError(f"Springtide.{name} {why}.", BAD_INPUT)


def _from_environment(text: str) -> dict[str, Any]:
    """Return the settings of section ``Springtide`` from the text that the hub passes in the environment."""
    if not text:
        return {}
    try:
        settings = json.loads(text)
    except ValueError as error:
        raise StartError(f"{CONFIG_ENV} is not JSON: {error}.", BAD_INPUT) from error
    if not isinstance(settings, dict):
        raise StartError(f"{CONFIG_ENV} must be a JSON object of settings.", BAD_INPUT)
    return settings


def _by_name(given: list[dict[str, Any]] | dict[str, dict[str, Any]], setting: str) -> dict[str, dict[str, Any]]:
    """Return the fields of each entry of a setting by its name; the input is a list or a mapping by name."""
    if isinstance(given, dict):
        return given
    nameless = next((entry for entry in given if not isinstance(entry.get("name"), str)), None)
    if nameless is not None:
        raise StartError(f"Springtide.{setting}: {nameless} has no name.", BAD_INPUT)
    return {str(entry["name"]): {k: v for k, v in entry.items() if k != "name"} for entry in given}


async def _run(setup: Setup) -> None:
    """Serve until a signal to stop, which is obeyed during the start too, or until the hub has ended."""
    leave = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, leave.set)
    async with AsyncExitStack() as stack:
        hub = hub_pid(os.environ)
        if hub is not None:
            stack.callback(when_hub_ends(hub, leave.set))
        starting = asyncio.ensure_future(stack.enter_async_context(Runtime(setup, clock=time.time)))
        left = asyncio.ensure_future(leave.wait())
        await asyncio.wait({starting, left}, return_when=asyncio.FIRST_COMPLETED)
        left.cancel()
        if not starting.done():
            starting.cancel()
            await asyncio.wait({starting})
            return
        await starting.result().serve_until(leave)


def main(arguments: list[str] | None = None) -> int:
    """Run the service and return the exit code: 0 for success, 1 for a failure, 2 for bad input."""
    try:
        app = Springtide(raise_config_file_errors=True)
        app.log.setLevel(logging.ERROR)
        app.configure_from(os.environ.get(CONFIG_ENV, ""), sys.argv[1:] if arguments is None else arguments)
        level: Any = app.log_level
        log_to_stderr(level, "json" if app.log_lines == "json" else "text")
        asyncio.run(_run(app.setup()))
    except TraitError as error:
        sys.stderr.write(f"springtide: {error}\n")
        return BAD_INPUT
    except StartError as error:
        sys.stderr.write(f"springtide: {error}\n")
        return error.code
    return 0

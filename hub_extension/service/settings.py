"""The settings of the service: its own, and those of its parts, which are declared beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from msgspec import Meta

from springtide.hub_extension.api.hub_configuration import HubConfiguration
from springtide.hub_extension.api.open_sessions import IDLE_S, SESSIONS
from springtide.hub_extension.api.routes import STREAMS
from springtide.hub_extension.notifications.channels import MessageSettings
from springtide.hub_extension.service.logs import Format
from springtide.hub_extension.tracking.tracker import TrackingSettings
from springtide.scheduler.engine import EngineSettings
from springtide.scheduler.executors.accounts import DEFAULT_UIDS, MACHINE
from springtide.scheduler.executors.local.limits import LimitSettings
from springtide.scheduler.executors.packages.steps import PackageSettings
from springtide.scheduler.settings import MIB, setting

AtLeastOne = Annotated[int, Meta(ge=1)]
NotNegative = Annotated[int, Meta(ge=0)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceSettings:
    """The settings of admins. `springtide.hub_extension.service.setup` derives all other values from them."""

    engine: EngineSettings = field(default_factory=EngineSettings)
    limits: LimitSettings = field(default_factory=LimitSettings)
    packages: PackageSettings = field(default_factory=PackageSettings)
    tracking: TrackingSettings = field(default_factory=TrackingSettings)
    messages: MessageSettings = field(default_factory=MessageSettings)
    hub: HubConfiguration = field(default_factory=HubConfiguration)

    state_dir: str = setting("springtide-state", "Where everything of the pool is kept.")
    database_url: str = setting(
        "", "The store: a file in the state directory unless it is a URL such as postgresql://user@host/name."
    )
    ip: str = setting("127.0.0.1", "The address to listen on.")
    port: int = setting(8090, "The port to listen on.", ge=1, le=65535)
    allowed_hosts: tuple[str, ...] = setting(
        (),
        "Names that browsers, notebooks and the hub may use for this service (the header Host), as a defence "
        "against DNS rebinding; .example.org means a domain and its subdomains. Empty: any. `springtide up` "
        "allows names of the loopback address.",
    )
    service_prefix: str = setting(
        "", "The path under which browsers reach the service. By default it is the hub's for the service."
    )
    jobs_url: str = setting(
        "",
        "The address at which programs of jobs reach this service, such as "
        "http://springtide.pool.svc:8090/services/springtide, so that jobs can submit jobs. On one machine it is "
        "the address that the service listens on; on a cluster jobs use the API only if it is set.",
    )
    simulated_gpus: AtLeastOne | Mapping[str, AtLeastOne] | None = setting(
        None,
        "The number of GPUs to simulate, build and train together, instead of using the machine's; a number "
        "for each GPU type, such as {'t4': 8, 'a100': 4}, simulates several. Without it, GPUs are simulated "
        "only if there are none.",
    )
    build_gpus: NotNegative | Mapping[str, NotNegative] = setting(
        0,
        "The number of GPUs for notebooks, those of the rarest type first, or a number for each GPU type; the "
        "rest is the train pool.",
    )
    gpu_types: tuple[Mapping[str, Any], ...] | Mapping[str, tuple[str, ...]] = setting(
        {},
        "GPU types, cheapest first, each with the models that count as one: {'t4': [], 'a100': ['NVIDIA "
        "A100-SXM4-80GB', 'NVIDIA A100-PCIE-40GB']}, or a list with name and models of each. A model that is "
        "not listed is a type of its own.",
    )
    projects: tuple[Mapping[str, Any], ...] | Mapping[str, Mapping[str, Any]] = setting(
        (),
        "The projects of a new pool, oldest first: name, and any of parent, quota, limit, weight, priority, "
        "build_quota. From then on the admin page is where they change.",
    )
    executor: Literal["local", "kubernetes"] = setting(
        "local", "Where jobs run: on this machine, or as pods of a cluster."
    )
    kubernetes: Mapping[str, Any] = setting(
        {},
        "The cluster: jobs_claim (the claim of the volume for jobs' files), and any of namespace, pool, "
        "node_selector, topology, tolerations, static_nodes and the other keys that the admin's guide lists.",
    )
    images: tuple[str, ...] = setting(
        (), "The images that jobs may run in on a cluster; * matches anything. The first is the default."
    )
    image_contents: Mapping[str, str] = setting(
        {},
        "The contents of images, so that packages that a job's code imports and its image lacks are named at "
        "submission: by patterns of images, of which the first that matches counts, files with the output of "
        "`springtide image-contents` in such an image.",
    )
    datasets: Mapping[str, Mapping[str, Any]] = setting(
        {},
        "Datasets that jobs may name and workspaces see, by name. On one machine {'imagenet': {'path': "
        "'/srv/imagenet'}} names a directory, on a cluster {'imagenet': {'claim': 'datasets', 'sub_path': "
        "'imagenet'}} a directory of a volume claim. 'projects' are those that may use it, with the projects "
        "inside them; without it all may.",
    )
    secrets: Mapping[str, Mapping[str, Any]] = setting(
        {},
        "Secrets whose environment variables jobs may have, by name. On one machine {'wandb': {'file': "
        "'/etc/springtide/wandb.env'}} names a file of NAME=value lines that only the service may read, on a "
        "cluster {'wandb': {'secret': 'wandb'}} a Secret in the namespace of jobs. 'projects' are those that may "
        "use it, with the projects inside them; without it all may.",
    )
    train_jobs: tuple[str, ...] = setting(
        (), "The namespaces of the cluster whose SpringtideJob objects are submitted; ['*'] are all of them."
    )
    springtide_job_policy: str = setting(
        "",
        "The ValidatingAdmissionPolicy, with a binding of the same name, that compares the annotation "
        "springtide.io/user of SpringtideJobs with who creates them. SpringtideJobs that it has seen run for that "
        "user. Without one all of a namespace run for the namespace's.",
    )
    train_job_policy: str = setting(
        "",
        "The same for TrainJobs, as SpringtideJobs were called before. It vouches for no SpringtideJob.",
    )
    accounts: Literal["own", "shared"] | None = setting(
        None,
        "Whose rights jobs and notebooks on this machine have: each those of its user's own account, which "
        "needs a hub that runs as root and is the default there, or all those of the hub's account, which "
        "means that all users must trust each other.",
    )
    account_uids: tuple[int, int] = setting(
        DEFAULT_UIDS,
        "First and last uid of the accounts of users who have none on this machine. Nothing but pools of "
        "Springtide may use these uids.",
    )
    uid_registry: str = setting(
        str(MACHINE),
        "The file in which all pools of this machine record which of them has which uids. It has to outlive a "
        "reboot, and to be the same for all pools.",
    )
    max_body: int = setting(32 * MIB, "The largest request body.", unit="bytes", ge=64 * 1024)
    submit_rate: float = setting(
        20.0, "Sustained rate of submissions per person, in submissions a second.", ge=0.001
    )
    submit_burst: int = setting(500, "Burst limit: submissions per person.", ge=1)
    streams_per_user: int = setting(
        STREAMS, "Event streams that one person may follow at a time: pages, and notebooks with cards.", ge=1
    )
    sessions_per_user: int = setting(
        SESSIONS, "Terminals and commands that one person may have open in running jobs at a time.", ge=1
    )
    session_idle: float = setting(
        IDLE_S,
        "The time after which a terminal or a command in a job is closed if nothing is typed or shown.",
        unit="seconds",
        ge=1,
        le=7 * 86400,
    )
    log_cap: int = setting(64 * MIB, "The size up to which each worker's log is kept.", unit="bytes", ge=64 * 1024)
    log_lines: Format = setting(
        "text", "Lines of the log: text for people, or json, one object a line, for collectors."
    )
    auth_cache: int = setting(
        30,
        "The time for which the hub's answer about identity and rights of a caller is used. Changes of groups by "
        "the pool count at once, and before it refuses a person the pool asks the hub again, at most once a "
        "second.",
        unit="seconds",
        ge=1,
        le=60,
    )
    takeover_wait: float = setting(
        15.0,
        "The time to wait for an earlier service that still holds the port or the state directory.",
        unit="seconds",
        ge=0,
    )

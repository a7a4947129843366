"""The set-up of a service: its settings, checked together, and the values derived from them on this machine."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import msgspec

from springtide.hub_extension.accounts import whose_accounts
from springtide.hub_extension.cluster.settings import cluster_settings
from springtide.hub_extension.local_hub.state_dir import LOOPBACK
from springtide.hub_extension.notifications.channels import Channels
from springtide.hub_extension.service.declarations import declared_datasets, declared_secrets
from springtide.hub_extension.service.settings import ServiceSettings
from springtide.scheduler.engine import EngineSettings
from springtide.scheduler.engine.requests import acceptance
from springtide.scheduler.executors.accounts import AccountError, Accounts
from springtide.scheduler.executors.kubernetes.settings import KubernetesSettings
from springtide.scheduler.executors.local.limits import Limits, LimitSettings
from springtide.scheduler.gpu_types import DeclaredTypes, declared_types
from springtide.scheduler.settings import SettingError, declared, entries_by_name
from springtide.scheduler.time_zones import pool_zone
from springtide.scheduler.wire import ImageContents
from springtide.scheduler.wording import LONG_GIVEN, given

ON_CLUSTERS: Final = (
    "kubernetes",
    "images",
    "image_contents",
    "train_jobs",
    "springtide_job_policy",
    "train_job_policy",
)
"""Settings that need a cluster."""
EVERY_ADDRESS: Final = ("", "0.0.0.0", "::")  # noqa: S104 - compared, not listened on
PREFIX_ENV: Final = "JUPYTERHUB_SERVICE_PREFIX"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """The settings of a service, and the values derived from them.

    ``prefix`` has slashes at both ends. Jobs run on this machine unless ``cluster`` is set. ``accounts`` are the
    accounts that jobs on this machine run as, None for the service's own account. ``engine`` are the complete
    settings of the engine. ``jobs_url`` is the address at which jobs reach the service, None if they do not.
    """

    settings: ServiceSettings
    state_dir: Path
    database_url: str
    prefix: str
    projects: Mapping[str, Mapping[str, Any]]
    engine: EngineSettings
    channels: Channels
    limits: Limits
    accounts: Accounts | None
    cluster: KubernetesSettings | None
    jobs_url: str | None


def setup_of(settings: ServiceSettings, channels: Channels) -> Setup:
    """Return the set-up with these settings. Raises `SettingError` for settings that contradict each other."""
    state_dir = Path(settings.state_dir).expanduser().absolute()
    types = declared_types(settings.gpu_types)
    on_cluster = settings.executor == "kubernetes"
    _refuse_unused(settings)
    settings.tracking.check()
    settings.hub.rules()
    pool_zone(settings.engine.time_zone)
    cluster = _cluster(settings, state_dir, types) if on_cluster else None
    accounts = None if on_cluster else _accounts(settings, state_dir)
    own_accounts = accounts is not None
    prefix = settings.service_prefix or os.environ.get(PREFIX_ENV, "/services/springtide/")
    prefix = f"/{prefix.strip('/')}/".replace("//", "/")
    return Setup(
        settings=settings,
        state_dir=state_dir,
        database_url=settings.database_url or f"sqlite:///{state_dir / 'springtide.sqlite'}",
        prefix=prefix,
        projects=entries_by_name(settings.projects, "projects"),
        engine=replace(
            settings.engine,
            types=types,
            notifications=channels.settings,
            images=None if cluster is None else cluster.images,
            image_contents=_image_contents(settings.image_contents),
            datasets=declared_datasets(settings.datasets, cluster=on_cluster),
            secrets=declared_secrets(settings.secrets, cluster=on_cluster, own_accounts=own_accounts),
        ),
        channels=channels,
        limits=settings.limits.limits(),
        accounts=accounts,
        cluster=cluster,
        jobs_url=_jobs_url(settings, prefix),
    )


def _jobs_url(settings: ServiceSettings, prefix: str) -> str | None:
    """Return the address at which jobs reach the service: on this machine that at which it listens."""
    if settings.jobs_url:
        return settings.jobs_url.rstrip("/")
    if settings.executor == "kubernetes":
        return None
    host = LOOPBACK if settings.ip in EVERY_ADDRESS else settings.ip
    return f"http://{f'[{host}]' if ':' in host else host}:{settings.port}{prefix}".rstrip("/")


def _refuse_unused(settings: ServiceSettings) -> None:
    """Raise `SettingError` for a setting that the executor does not use."""
    if settings.executor == "local":
        _refuse(settings, ON_CLUSTERS, "means something on a cluster only; set Springtide.executor = 'kubernetes'")
        return
    _refuse(settings, ("simulated_gpus", "build_gpus"), "is for one machine; on a cluster the nodes report it")
    why = "is for one machine; leave it out"
    _refuse(settings, ("accounts",), why)
    _refuse(settings.limits, (limit.name for limit in declared(LimitSettings)), why)
    _refuse(settings.packages, ("pip_variables",), why)


def _refuse(group: object, names: Iterable[str], why: str) -> None:
    for name in names:
        if getattr(group, name):
            raise SettingError(f"Springtide.{name} {why}.")


def _accounts(settings: ServiceSettings, state_dir: Path) -> Accounts | None:
    """Return the accounts that jobs run as; None for the service's own account.

    Raises `SettingError` if jobs cannot run as these accounts.
    """
    try:
        mode = whose_accounts(settings.accounts, root=os.geteuid() == 0)
    except AccountError as error:
        raise SettingError(str(error)) from error
    registry = Path(settings.uid_registry).expanduser().absolute()
    return Accounts(state_dir, settings.account_uids, registry) if mode == "own" else None


def _cluster(settings: ServiceSettings, state_dir: Path, types: DeclaredTypes) -> KubernetesSettings:
    problem = acceptance.pattern_list_error(settings.images)
    if problem is not None:
        raise SettingError(f"Springtide.images: {problem}.")
    return cluster_settings(settings.kubernetes, state_dir=state_dir, images=settings.images, types=types)


def _image_contents(files: Mapping[str, str]) -> Mapping[str, ImageContents]:
    """Return the declared contents of images. Raises `SettingError` for a pattern or file that is unusable."""
    bad = acceptance.wrong_pattern(tuple(files))
    if bad is not None:
        raise SettingError(f"Springtide.image_contents: {given(bad, LONG_GIVEN)} is no name or pattern of images.")
    return {pattern: _contents(pattern, Path(file)) for pattern, file in files.items()}


def _contents(pattern: str, file: Path) -> ImageContents:
    try:
        return msgspec.json.decode(file.read_bytes(), type=ImageContents)
    except OSError as error:
        problem = error.strerror
    except msgspec.DecodeError as error:
        problem = f"{error}. Expected is what `springtide image-contents` prints"
    raise SettingError(
        f"Springtide.image_contents: {given(str(file), LONG_GIVEN)}, of {given(pattern, LONG_GIVEN)}, cannot be "
        f"read: {problem}."
    )

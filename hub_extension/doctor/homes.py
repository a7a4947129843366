"""Checks of homes: whether the pods of jobs can mount them on any node. Needs the extra ``kubernetes``."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection
from typing import Final

import msgspec

from springtide.hub_extension.doctor.findings import Finding, note, ok, problem
from springtide.scheduler.executors.kubernetes.homes import USER, access_by_rule
from springtide.scheduler.executors.kubernetes.objects.api_types import VolumeClaim
from springtide.scheduler.executors.kubernetes.settings import KubernetesSettings
from springtide.scheduler.kube import VOLUME_CLAIMS, Api, ApiError
from springtide.scheduler.model import HomeAccess
from springtide.scheduler.wording import count, listed, plural

CHECK: Final = "homes"
MAX_SHOWN: Final = 5
"""Maximum number of claims that a finding names."""
SHARED: Final = (
    "Homes of a class with ReadWriteMany are in jobs, too: notebooks.storage.accessModes of the chart, "
    "singleuser.storage.dynamic.storageAccessModes of zero-to-jupyterhub. A claim that is there does not change."
)


async def homes(api: Api, settings: KubernetesSettings) -> AsyncIterator[Finding]:
    """Report which homes the pods of jobs have, and those that they have by a setting and cannot attach."""
    try:
        found, _ = await api.list(VOLUME_CLAIMS, settings.namespace)
    except ApiError as error:
        yield note(CHECK, f"The claims of homes cannot be listed: {error.message or error}", "Allow it.")
        return
    claims = [msgspec.convert(each, VolumeClaim) for each in found]
    claims = [claim for claim in claims if USER in claim.metadata.annotations]
    if not claims:
        yield note(
            CHECK,
            f"No claim in {settings.namespace} is the home of a user: jobs have none.",
            "Start a notebook. Homes are found in the namespace of jobs only.",
        )
        return
    if settings.home == "none":
        yield ok(CHECK, "Jobs have no homes: the setting kubernetes.home is none.")
        return
    single = [
        claim.metadata.name
        for claim in claims
        if access_by_rule(claim.access_modes, "auto") is HomeAccess.ONE_NODE
    ]
    if not single:
        yield ok(CHECK, f"The volumes of all {count(len(claims), 'home')} can be attached to many nodes.")
    elif settings.home == "mount":
        yield problem(
            CHECK,
            f"The setting kubernetes.home is mount, and one node only can attach {_few(single)}: jobs on other "
            "nodes wait until the notebook has stopped.",
            f"Set kubernetes.home to auto, unless the cluster has one node. {SHARED}",
        )
    else:
        yield note(
            CHECK,
            f"{count(len(single), 'home')} of {len(claims)} {plural(len(single), 'is', 'are')} left out of jobs, "
            f"because one node only can attach {_few(single)}.",
            SHARED,
        )


def _few(names: Collection[str]) -> str:
    shown = sorted(names)[:MAX_SHOWN]
    more = len(names) - len(shown)
    return f"{', '.join(shown)} and {more} more" if more else listed(shown)

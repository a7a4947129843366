"""The ResourceClaimTemplates of the pool: one for each model and number of GPUs; pure.

A template says nothing of a job, so that all jobs and workspaces with as many GPUs share it, and it stays. The
claims that the cluster makes of it belong to their pods, and go with them.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable

from springtide.scheduler.executors.kubernetes.devices.published import WHOLE, PublishedGpu
from springtide.scheduler.executors.kubernetes.objects import names
from springtide.scheduler.executors.kubernetes.settings import KubernetesSettings
from springtide.scheduler.gpu_types import type_name
from springtide.scheduler.kube import CLAIM_TEMPLATES, Object
from springtide.scheduler.resources.device_claims import CLAIM, template_name

LONGEST_MODEL = 40
_OTHERS = re.compile(r"[^a-z0-9]+")


def by_model(gpus: Iterable[PublishedGpu]) -> dict[tuple[str, str], tuple[PublishedGpu, ...]]:
    """Return GPUs by the attribute with their model, and the model, in the order of the first of each."""
    found: dict[tuple[str, str], list[PublishedGpu]] = {}
    for gpu in gpus:
        found.setdefault((gpu.named_by, gpu.model), []).append(gpu)
    return {model: tuple(those) for model, those in found.items()}


def resource_of(named_by: str, model: str, settings: KubernetesSettings) -> str:
    """Return the resource of the pool's nodes with claimed GPUs of a model.

    The names of its templates begin with it. The digest covers all fields of a template, which are
    immutable.
    """
    said = json.dumps([settings.device_class, settings.device_driver, named_by, model])
    digest = hashlib.sha256(said.encode()).hexdigest()[:8]
    word = _OTHERS.sub("-", type_name(model))[:LONGEST_MODEL].strip("-")
    return "-".join(part for part in (settings.pool, word, digest) if part)


def expression(named_by: str, model: str, driver: str) -> str:
    """Return the expression in CEL that selects the GPUs of a model that the pool counts."""
    attributes = f"device.attributes[{json.dumps(driver)}]"
    parts = [
        f"device.driver == {json.dumps(driver)}",
        f'(!("type" in {attributes}) || {attributes}.type == {json.dumps(WHOLE)})',
    ]
    if named_by:
        parts += [f'"{named_by}" in {attributes}', f"{attributes}.{named_by} == {json.dumps(model)}"]
    return " && ".join(parts)


def claim_template(named_by: str, model: str, gpus: int, settings: KubernetesSettings, namespace: str) -> Object:
    """Return the template of claims for this number of GPUs of a model."""
    labels = {names.MANAGED_BY: "springtide", names.POOL: settings.pool}
    exactly: Object = {
        "deviceClassName": settings.device_class,
        "allocationMode": "ExactCount",
        "count": gpus,
        "selectors": [{"cel": {"expression": expression(named_by, model, settings.device_driver)}}],
    }
    return {
        "apiVersion": CLAIM_TEMPLATES.api_version,
        "kind": "ResourceClaimTemplate",
        "metadata": {
            "name": template_name(resource_of(named_by, model, settings), gpus),
            "namespace": namespace,
            "labels": labels,
        },
        "spec": {
            "metadata": {"labels": labels},
            "spec": {"devices": {"requests": [{"name": CLAIM, "exactly": exactly}]}},
        },
    }

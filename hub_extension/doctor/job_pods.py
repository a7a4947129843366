"""Checks of the pods of jobs as the admin shapes them, by dry runs. Needs the extra ``kubernetes``."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from typing import Final

from springtide.hub_extension.doctor.findings import Finding, note, ok, problem
from springtide.scheduler.declared import NamedSecret
from springtide.scheduler.executors.base import AttemptKey, AttemptSpec, ExecutorError
from springtide.scheduler.executors.kubernetes.objects import manifests
from springtide.scheduler.executors.kubernetes.objects.gpu_resources import ANY
from springtide.scheduler.executors.kubernetes.objects.manifests import LaunchRecord
from springtide.scheduler.executors.kubernetes.pod_template import PodTemplate, template_of
from springtide.scheduler.executors.kubernetes.settings import KubernetesSettings
from springtide.scheduler.kube import Api, ApiError, Object
from springtide.scheduler.kube.resources import CONFIG_MAPS, PODS, SECRETS, VOLUME_CLAIMS, Resource
from springtide.scheduler.model import Worker
from springtide.scheduler.wording import count, given, listed

CHECK: Final = "pods of jobs"
NOT_FOUND: Final = 404
FORBIDDEN: Final = 403


async def job_pods(
    api: Api, settings: KubernetesSettings, secrets: Mapping[str, NamedSecret]
) -> AsyncIterator[Finding]:
    """Try the pod of a job with one GPU, in each project that has a template, and look up what templates name.

    Nothing is created: the cluster says what it would answer.
    """
    sound = True
    for project in ("", *settings.project_pod_templates):
        of = f" of the project {given(project)}" if project else ""
        try:
            record = specimen(project, settings)
            answer = await api.create(
                PODS, settings.namespace, manifests.pod(record, 0, settings), dry_run=True, decode_as=Object
            )
        except ExecutorError as error:
            sound = False
            yield problem(CHECK, str(error), "Set images.")
            break
        except ApiError as error:
            sound = False
            yield problem(
                CHECK,
                f"The cluster would refuse the pods of jobs{of}: {error.message or error}",
                "Correct pod_template or project_pod_templates, or what the cluster asks of pods.",
            )
            continue
        lacking = _without_restart(answer, manifests.template(record, settings))
        if lacking:
            sound = False
            yield problem(
                CHECK,
                f"The cluster takes {listed(lacking)} for no sidecar: jobs{of} would wait for its end.",
                "Sidecars need Kubernetes 1.29 or newer.",
            )
    async for finding in _named(api, settings, secrets):
        sound = False
        yield finding
    if sound:
        own = len(settings.project_pod_templates)
        more = f", and those of {count(own, 'project')} with a template" if own else ""
        yield ok(CHECK, f"The cluster would take the pods of jobs{more}.")


def specimen(project: str, settings: KubernetesSettings) -> LaunchRecord:
    """Return the launch record of a job with one GPU, to try its pod. Raises `ExecutorError` without an image."""
    spec = AttemptSpec(
        key=AttemptKey("doctor", 1),
        epoch=0,
        name="doctor",
        project=project,
        user="doctor",
        argv=("true",),
        placement=(Worker(0, "doctor", (0,)),),
        workers=1,
        grace=30.0,
    )
    plain = [each for each in settings.gpu_resources if ANY not in each]
    image = manifests.choose_image(None, settings)
    return LaunchRecord(spec, image, None, "program", "doctor", tuple(plain[:1]))


def _without_restart(pod: Object, template: PodTemplate) -> list[str]:
    """Return the names of sidecars that the cluster takes for init containers, as it did before version 1.29."""
    found = {each["name"]: each.get("restartPolicy") for each in pod["spec"].get("initContainers", ())}
    return [each.name for each in template.init_containers if each.is_sidecar and not found.get(each.name)]


async def _named(
    api: Api, settings: KubernetesSettings, secrets: Mapping[str, NamedSecret]
) -> AsyncIterator[Finding]:
    """Look up the Secrets, ConfigMaps and claims that templates and declared secrets name."""
    own = settings.project_pod_templates
    templates = [template_of([name], settings.pod_template, own) for name in own] or [settings.pod_template]
    declared = frozenset(each.secret for each in secrets.values())
    unread: list[str] = []
    for kind, resource, names in (
        ("Secret", SECRETS, _all([*(template.secrets for template in templates), declared])),
        ("ConfigMap", CONFIG_MAPS, _all(template.config_maps for template in templates)),
        ("claim", VOLUME_CLAIMS, _all(template.claims for template in templates)),
    ):
        for name in names:
            status = await _status(api, resource, settings.namespace, name)
            if status == NOT_FOUND:
                yield problem(
                    CHECK,
                    f"The settings name the {kind} {name}, and {settings.namespace} has none: its jobs wait.",
                    f"Create it in the namespace {settings.namespace}, or correct its name.",
                )
            elif status == FORBIDDEN:
                unread.append(f"the {kind} {name}")
    if unread:
        yield note(
            CHECK,
            f"This account may not read {listed(unread)}: whether they exist is unknown.",
            "Run springtide doctor with the KUBECONFIG of an admin of the cluster.",
        )


def _all(names: Iterable[frozenset[str]]) -> list[str]:
    return sorted(frozenset[str]().union(*names))


async def _status(api: Api, resource: Resource, namespace: str, name: str) -> int:
    """Return the status of a look-up, 0 if the object is there. Raises `ApiError` for other failures."""
    try:
        await api.get(resource, namespace, name)
    except ApiError as error:
        if error.status in (NOT_FOUND, FORBIDDEN):
            return error.status
        raise
    return 0

"""The Helm chart, and Helm to render and install it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from clusters.cluster import Cluster
from clusters.cluster_tools import tools

ROOT = Path(__file__).parents[3]
CHART = ROOT / "helm/springtide"
GUIDE = ROOT / "docs/kubernetes.md"
RELEASE = "springtide"
CLAIMS = {"springtide-store": "5Gi", "springtide-jobs": "100Gi", "springtide-hub": "1Gi"}
"""Claims of an installation with the chart's defaults."""
_WITHOUT_COLLECTIONS = {"GOGC": "off", "GOMEMLIMIT": "512MiB"}
"""Garbage collections take a third of the processor time of a short run of Helm."""
UNCHECKED = "--disable-openapi-validation"
"""For installations that are not about the objects, whose check takes Helm half of its processor time."""
_SHOWN_VALUES = re.compile(r"<!-- values: (\S+) -->\n```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class HelmError(Exception):
    """Helm failed; the message is its output."""


class Helm:
    """Helm with its own home directory, independent of the user's settings and plugins."""

    def __init__(self, home: Path, environment: Mapping[str, str] | None = None, chart: Path = CHART) -> None:
        self.chart = chart
        self._program = tools() / "helm"
        self._environment = {**os.environ, **(environment or {}), **_WITHOUT_COLLECTIONS, "HELM_DEBUG": "0"}
        self._environment |= {
            f"HELM_{part}_HOME": str(home / part.lower()) for part in ("CACHE", "CONFIG", "DATA")
        }
        self._values = home / "values.json"
        home.mkdir(parents=True, exist_ok=True)

    def run(self, *arguments: str, values: Mapping[str, Any] | None = None) -> str:
        """Run a Helm command with ``values`` and return its output. Raise `HelmError` when it fails."""
        command = [str(self._program), *arguments]
        if values:
            self._values.write_text(json.dumps(values))
            command += ["--values", str(self._values)]
        done = subprocess.run(command, env=self._environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise HelmError(f"{' '.join(arguments)}: {done.stderr}{done.stdout}")
        return done.stdout

    def lint(self, values: Mapping[str, Any] | None = None) -> str:
        """Check the chart with ``helm lint``, warnings included."""
        return self.run("lint", "--strict", str(self.chart), values=values)

    def template(
        self, values: Mapping[str, Any] | None = None, *, release: str = RELEASE, namespace: str = "pool"
    ) -> list[dict[str, Any]]:
        """Return the objects that an installation would create."""
        command = ["template", release, str(self.chart), "--namespace", namespace, "--kube-version", "1.34.0"]
        command += ["--set", "newSecretsWithoutCluster=true"]
        return [made for made in yaml.load_all(self.run(*command, values=values), yaml.CSafeLoader) if made]


class Template:
    """The objects that an installation would create, rendered once for the same values; callers change none."""

    def __init__(self, helm: Helm) -> None:
        self._helm = helm
        self._rendered: dict[str, list[dict[str, Any]]] = {}

    def __call__(
        self, values: Mapping[str, Any] | None = None, *, release: str = RELEASE, namespace: str = "pool"
    ) -> list[dict[str, Any]]:
        """Return the objects. Raise `HelmError` when Helm refuses the values."""
        key = json.dumps([values or {}, release, namespace])
        if key not in self._rendered:
            self._rendered[key] = self._helm.template(values, release=release, namespace=namespace)
        return self._rendered[key]


def of_kind(objects: Sequence[Mapping[str, Any]], kind: str) -> dict[str, Any]:
    """Return the objects of a kind, by name."""
    return {made["metadata"]["name"]: made for made in objects if made["kind"] == kind}


def pods_of(objects: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the pod templates of the Deployments, by component."""
    templates = [made["spec"]["template"] for made in of_kind(objects, "Deployment").values()]
    return {made["metadata"]["labels"]["app.kubernetes.io/component"]: made for made in templates}


def of_all(objects: Sequence[Mapping[str, Any]], kind: str) -> list[Mapping[str, Any]]:
    """Return the objects of a kind in all namespaces."""
    return [made for made in objects if made["kind"] == kind]


def secrets_of(pod: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the Secrets that a pod template's environment reads, with their keys."""
    references = [
        entry["valueFrom"]["secretKeyRef"]
        for container in pod["spec"]["containers"]
        for entry in container["env"]
        if "secretKeyRef" in entry.get("valueFrom", {})
    ]
    return [(reference["name"], reference["key"]) for reference in references]


def service_settings(objects: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the service's settings from the chart."""
    settings = json.loads(of_kind(objects, "ConfigMap")["springtide"]["data"]["service.json"])["settings"]
    assert isinstance(settings, dict)
    return settings


def write_config(objects: Sequence[Mapping[str, Any]], name: str, directory: Path) -> Path:
    """Write the files of a ConfigMap as a pod sees them; return the directory."""
    directory.mkdir(parents=True, exist_ok=True)
    for file, text in of_kind(objects, "ConfigMap")[name]["data"].items():
        (directory / file).write_text(text)
    return directory


def shown_values() -> dict[str, dict[str, Any]]:
    """Return the values shown in the guide for administrators, by the name in the comment before them."""
    return {name: yaml.safe_load(text) for name, text in _SHOWN_VALUES.findall(GUIDE.read_text())}


@contextlib.contextmanager
def volumes(cluster: Cluster, namespace: str) -> Iterator[None]:
    """Create volumes for the claims of an installation in this namespace only."""
    names = [f"{namespace}-{claim}" for claim in CLAIMS]
    for name, (claim, size) in zip(names, CLAIMS.items(), strict=True):
        spec = {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce", "ReadWriteMany"],
            "persistentVolumeReclaimPolicy": "Retain",
            "claimRef": {"namespace": namespace, "name": claim},
            "hostPath": {"path": f"/nowhere/{name}"},
        }
        cluster.request("POST", "/api/v1/persistentvolumes", {"metadata": {"name": name}, "spec": spec})
    try:
        yield
    finally:
        for name in names:
            cluster.request("DELETE", f"/api/v1/persistentvolumes/{name}")

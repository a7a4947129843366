"""The chart, and Helm to render and install it."""

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
from cluster import Cluster
from cluster_tools import tools

ROOT = Path(__file__).parents[2]
CHART = ROOT / "helm/springtide"
GUIDE = ROOT / "docs/kubernetes.md"
RELEASE = "springtide"
CLAIMS = {"springtide-store": "5Gi", "springtide-jobs": "100Gi", "springtide-hub": "1Gi"}
"""What an installation claims with the chart's defaults."""
_SHOWN_VALUES = re.compile(r"<!-- values: (\S+) -->\n```yaml\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class HelmError(Exception):
    """Helm said no; the message is what it said."""


class Helm:
    """Helm with a home of its own, so that nobody's settings or plugins have a part in it."""

    def __init__(self, home: Path, environment: Mapping[str, str] | None = None, chart: Path = CHART) -> None:
        self.chart = chart
        self._program = tools() / "helm"
        self._environment = {**os.environ, **(environment or {}), "HELM_DEBUG": "0"}
        self._environment |= {
            f"HELM_{part}_HOME": str(home / part.lower()) for part in ("CACHE", "CONFIG", "DATA")
        }
        self._values = home / "values.json"
        home.mkdir(parents=True, exist_ok=True)

    def run(self, *arguments: str, values: Mapping[str, Any] | None = None) -> str:
        """Run a command of Helm with ``values``; what it printed. Raises `HelmError`."""
        command = [str(self._program), *arguments]
        if values:
            self._values.write_text(json.dumps(values))
            command += ["--values", str(self._values)]
        done = subprocess.run(command, env=self._environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise HelmError(f"{' '.join(arguments)}: {done.stderr}{done.stdout}")
        return done.stdout

    def lint(self, values: Mapping[str, Any] | None = None) -> str:
        """Find fault with the chart, warnings too."""
        return self.run("lint", "--strict", str(self.chart), values=values)

    def template(
        self, values: Mapping[str, Any] | None = None, *, release: str = RELEASE, namespace: str = "pool"
    ) -> list[dict[str, Any]]:
        """The objects that an installation would make."""
        command = ["template", release, str(self.chart), "--namespace", namespace, "--kube-version", "1.34.0"]
        return [made for made in yaml.safe_load_all(self.run(*command, values=values)) if made]


def of_kind(objects: Sequence[Mapping[str, Any]], kind: str) -> dict[str, Any]:
    """The objects of a kind, by name."""
    return {made["metadata"]["name"]: made for made in objects if made["kind"] == kind}


def pods_of(objects: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The pod templates of the Deployments, by their part of the product."""
    templates = [made["spec"]["template"] for made in of_kind(objects, "Deployment").values()]
    return {made["metadata"]["labels"]["app.kubernetes.io/component"]: made for made in templates}


def write_config(objects: Sequence[Mapping[str, Any]], name: str, directory: Path) -> Path:
    """Write the files of a ConfigMap as a pod finds them; the directory."""
    directory.mkdir(parents=True, exist_ok=True)
    for file, text in of_kind(objects, "ConfigMap")[name]["data"].items():
        (directory / file).write_text(text)
    return directory


def shown_values() -> dict[str, dict[str, Any]]:
    """The values that the guide for administrators shows, by the name that its source gives them."""
    return {name: yaml.safe_load(text) for name, text in _SHOWN_VALUES.findall(GUIDE.read_text())}


@contextlib.contextmanager
def volumes(cluster: Cluster, namespace: str) -> Iterator[None]:
    """Volumes for the claims of an installation in this namespace, and for no others."""
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

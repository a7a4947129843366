"""The programs of the test cluster, pinned by ``tests/cluster/go.mod`` and built once into a cache of the user."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path

from build_lock import alone
from programs.commands import run, step

MODULES = Path(__file__).parents[2] / "cluster"
_KUBERNETES = "k8s.io/kubernetes/cmd"
# In build order: the folder of its module, and its package.
PROGRAMS = {
    "etcd": (".", "go.etcd.io/etcd/server/v3"),
    "kube-apiserver": (".", f"{_KUBERNETES}/kube-apiserver"),
    "kube-controller-manager": (".", f"{_KUBERNETES}/kube-controller-manager"),
    "kube-scheduler": (".", f"{_KUBERNETES}/kube-scheduler"),
    "kwok": ("kwok", "sigs.k8s.io/kwok/cmd/kwok"),
    "helm": (".", "helm.sh/helm/v3/cmd/helm"),
    "kubelet": (".", f"{_KUBERNETES}/kubelet"),
    "kube-proxy": (".", f"{_KUBERNETES}/kube-proxy"),
    "coredns": ("coredns", "."),
    "pause": (".", "./pause"),
}
FLAGS = ("-trimpath", "-buildvcs=false")
_NICENESS = 10
_USUAL_GO = Path("/usr/local/go/bin/go")


class ToolsMissingError(Exception):
    """Programs of the test cluster are missing; the message says which, their directory, and how to get them."""


def tools(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the directory with the programs of the test cluster: ``KUBEBUILDER_ASSETS`` if set, else the cache.

    Raise ToolsMissingError when one of them is missing.
    """
    directory = _directory(environment)
    if missing := _missing(directory, environment):
        names = ", ".join(missing)
        if environment.get("KUBEBUILDER_ASSETS"):
            way_out = "put it there, or unset KUBEBUILDER_ASSETS and run `make tools`, which builds all of them"
            raise ToolsMissingError(f"KUBEBUILDER_ASSETS={directory} has no {names}: {way_out}")
        raise ToolsMissingError(f"The test cluster's {names} is not built in {directory}: run `make tools`")
    return directory


def build(environment: Mapping[str, str] = os.environ) -> Path:
    """Build the missing programs, one at a time, and return the directory of all.

    Several processes may call this at once: one builds, the others wait for it. Programs built before an
    interruption are kept. Raise ToolsMissingError without Go, or when ``KUBEBUILDER_ASSETS`` lacks a program, and
    CommandError with the compiler's output.
    """
    directory = _directory(environment)
    if environment.get("KUBEBUILDER_ASSETS") or not _missing(directory, environment):
        return tools(environment)
    directory.mkdir(parents=True, exist_ok=True)
    with alone(directory.parent / "building", "the test cluster's programs"):
        for unfinished in directory.glob(".*"):
            unfinished.unlink()
        missing = _missing(directory, environment)
        if missing:
            print("Building the programs of the test cluster; once, and about 20 minutes on 2 cores:", flush=True)
        for name in missing:
            _compile(name, directory, environment)
    return directory


def cache(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the cache directory: ``SPRINGTIDE_TOOLS``, else ``springtide`` in the user's cache."""
    caches = Path(environment.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return Path(environment.get("SPRINGTIDE_TOOLS") or caches / "springtide")


def _directory(environment: Mapping[str, str]) -> Path:
    if assets := environment.get("KUBEBUILDER_ASSETS"):
        return Path(assets)
    recipe = hashlib.sha256(repr((PROGRAMS, FLAGS)).encode())
    for source in sorted([*MODULES.rglob("go.*"), *MODULES.rglob("*.go")]):
        recipe.update(source.read_bytes())
    return cache(environment) / f"cluster-{recipe.hexdigest()[:12]}" / "bin"


def _missing(directory: Path, environment: Mapping[str, str]) -> list[str]:
    """Return the required programs that are missing; with ``KUBECONFIG`` only Helm is required."""
    needed = ["helm"] if environment.get("KUBECONFIG") else list(PROGRAMS)
    return [name for name in needed if not os.access(directory / name, os.X_OK)]


def _compile(name: str, directory: Path, environment: Mapping[str, str]) -> None:
    unfinished = directory / f".{name}-{os.getpid()}"
    command = ["nice", "-n", str(_NICENESS), _go(environment), "build", *FLAGS, "-ldflags", _link_flags()]
    module, package = PROGRAMS[name]
    settings = {**environment, "CGO_ENABLED": "0"}
    with step(name):
        run(*command, "-o", unfinished, package, cwd=MODULES / module, environment=settings)
        unfinished.replace(directory / name)


def _go(environment: Mapping[str, str]) -> str:
    found = shutil.which("go", path=environment.get("PATH"))
    if found is None and _USUAL_GO.exists():
        found = str(_USUAL_GO)
    if found is None:
        needed = re.search(r"^go (\d+\.\d+)", (MODULES / "go.mod").read_text(), re.MULTILINE)
        assert needed is not None
        raise ToolsMissingError(
            f"The test cluster is built with Go {needed[1]} or newer, and `go` is not on the PATH: install it "
            "(https://go.dev/doc/install, or `golang-go` of a recent Debian or Ubuntu), or set KUBEBUILDER_ASSETS "
            f"to a directory that has {', '.join(PROGRAMS)}"
        )
    return found


def _link_flags() -> str:
    """Return flags that strip symbols and set the version that the control plane reports to its clients."""
    version = re.search(r"k8s\.io/kubernetes (v(\d+)\.(\d+)\.\d+)", (MODULES / "go.mod").read_text())
    assert version is not None
    told = {"gitVersion": version[1], "gitMajor": version[2], "gitMinor": version[3]}
    return " ".join(["-s -w", *(f"-X k8s.io/component-base/version.{key}={value}" for key, value in told.items())])

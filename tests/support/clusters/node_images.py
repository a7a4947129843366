"""The images of ``helm/images`` and one with MPI, built without a registry and unpacked once, for the test nodes.

The base image and the layers with the packages that Springtide requires do not depend on the source tree and are
built once; the images of the source tree are a layer on top, rebuilt in seconds after a change.
"""

from __future__ import annotations

import ast
import contextlib
import fcntl
import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from build_lock import alone
from clusters import cluster_tools
from clusters.cluster_tools import ToolsMissingError
from clusters.control_plane import Daemon, until
from clusters.enclosure import Enclosure, check_machine, directory_of_its_own
from clusters.grpc_client import problem
from programs.commands import run, step

ROOT = Path(__file__).parents[3]
CONTAINERD = ROOT / "tests" / "cluster" / "node" / "containerd.toml"
DOCKERFILES = {
    "service": ROOT / "helm/images/service/Dockerfile",
    "notebook": ROOT / "helm/images/notebook/Dockerfile",
    "mpi": ROOT / "tests/cluster/node/mpi/Dockerfile",
}
SOURCES = (
    ".dockerignore",
    "LICENSE",
    "README.md",
    "__main__.py",
    "examples",
    "helm/images",
    "hub_extension",
    "pyproject.toml",
    "scheduler",
    "spawner",
    "tests/cluster/node/mpi",
    "training",
    "widgets",
)
SUITE = "bookworm"
BASE_PACKAGES = "python3,python3-venv,ca-certificates,tini"
CERTIFICATES = ("REQUESTS_CA_BUNDLE", "SSL_CERT_FILE")
PAUSE = 'FROM scratch\nCOPY pause /pause\nUSER 65535:65535\nENTRYPOINT ["/pause"]\n'
BLOBS = "io.containerd.content.v1.content/blobs/sha256"
LAYERS = "io.containerd.snapshotter.v1.overlayfs/snapshots"
HEX = "[0-9a-f]"
CONTAINERD_TIMEOUT_S = 120.0
KEPT = 3  # number of source trees whose images are kept


def image(name: str) -> str:
    """Return the name of one of ``DOCKERFILES`` for pods; nodes have these images, and none can be pulled."""
    assert name in DOCKERFILES, f"{name} is none of {', '.join(DOCKERFILES)}"
    return _tag(name)


def _tag(name: str) -> str:
    return f"localhost/springtide/{name}:test"


def build(programs: Path, environment: Mapping[str, str] = os.environ) -> None:
    """Build the images of this source tree and unpack them, if that is not done yet.

    Several processes may call this at once: one builds, the others wait. Raise NoRealNodeError when this machine
    cannot build images, CommandError when a build fails, and ToolsMissingError when the source tree changed
    meanwhile.
    """
    check_machine()
    cache = cluster_tools.cache(environment)
    cache.mkdir(parents=True, exist_ok=True)
    ready = _unpacked_for(programs, environment)
    if ready.exists():
        os.utime(ready)
        return
    with alone(cache / "images.lock", "the nodes' images"):
        for unfinished in cache.glob("images-building-*-*"):
            if not Path(f"/proc/{unfinished.name.split('-')[2]}").exists():
                shutil.rmtree(unfinished)
        if not ready.exists():
            with tempfile.TemporaryDirectory(prefix=f"images-building-{os.getpid()}-", dir=cache) as scratch:
                buildah = _build(programs, cache, Path(scratch), environment)
                if _unpacked_for(programs, environment) != ready:
                    raise ToolsMissingError("The tree changed while its images were built: run `make tools` again")
                with step("images unpacked for the nodes"):
                    _unpack(buildah, ready, programs, cache)
        _remove_unused(cache)


@contextlib.contextmanager
def images(programs: Path, environment: Mapping[str, str] = os.environ) -> Iterator[Path]:
    """Yield a containerd directory with the images of this source tree, which is kept until the block is left.

    Raise NoRealNodeError when this machine cannot run nodes, and ToolsMissingError when the images of this source
    tree are not built.
    """
    check_machine()
    ready = _unpacked_for(programs, environment)
    with contextlib.ExitStack() as held:
        with contextlib.suppress(FileNotFoundError):
            lock = held.enter_context((ready / "lock").open("w"))
            fcntl.flock(lock, fcntl.LOCK_SH)
        if not (ready / "containerd").exists():
            raise ToolsMissingError(
                f"There are no images of the nodes built from this tree ({ready}): run `make tools`"
            )
        os.utime(ready)
        yield ready / "containerd"


def _unpacked_for(programs: Path, environment: Mapping[str, str]) -> Path:
    return cluster_tools.cache(environment) / f"images-{_digest(programs)}"


def _remove_unused(cache: Path) -> None:
    """Remove all images except those of the source trees used last, and those in use."""
    for older in _unpacked(cache)[KEPT:]:
        with (older / "lock").open("w") as lock, contextlib.suppress(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(older)


def copy_images(unpacked: Path, target: Path) -> None:
    """Create a containerd directory for one node, which shares the files of the images with ``unpacked``."""
    layers = unpacked / LAYERS

    def link_or_copy(shared: str, own: str) -> None:
        if shared.endswith(".db"):
            shutil.copy2(shared, own)
        else:
            os.link(shared, own)

    def left_out(directory: str, names: list[str]) -> list[str]:
        return names if Path(directory) == layers else []

    shutil.copytree(unpacked, target, ignore=left_out, copy_function=link_or_copy)
    for layer in layers.iterdir():
        own = target / LAYERS / layer.name
        (own / "work").mkdir(parents=True)
        (own / "fs").symlink_to(layer / "fs")


def start_containerd(enclosure: Enclosure) -> Daemon:
    """Start containerd inside, and wait until it serves: its socket is there before a kubelet can use it."""
    daemon = enclosure.daemon("containerd", "--config", CONTAINERD)
    socket = enclosure.root / "run/containerd/containerd.sock"

    def serves() -> bool:
        if not daemon.runs():
            raise RuntimeError(f"containerd ended while it started:\n{daemon.tail()}")
        return socket.exists() and not problem(socket, "/runtime.v1.RuntimeService/Version")

    until(serves, "containerd serves", timeout_s=CONTAINERD_TIMEOUT_S)
    return daemon


def _digest(programs: Path) -> str:
    found = hashlib.sha256(repr((SUITE, BASE_PACKAGES, *DOCKERFILES)).encode())
    for name in SOURCES:
        top = ROOT / name
        for path in sorted(top.rglob("*")) if top.is_dir() else [top]:
            if path.is_file() and "__pycache__" not in path.parts:
                found.update(f"{path.relative_to(ROOT)}\0{path.stat().st_mode & 0o111}\0".encode())
                found.update(hashlib.sha256(path.read_bytes()).digest())
    found.update((programs / "pause").read_bytes())
    return found.hexdigest()[:12]


def _unpacked(cache: Path) -> list[Path]:
    """Return the unpacked images of all trees, those used last first."""
    return sorted(cache.glob(f"images-{HEX * 12}"), key=lambda path: path.stat().st_mtime, reverse=True)


class _Buildah:
    """buildah with a store of its own; its mounts end with each command."""

    def __init__(self, store: Path, scratch: Path) -> None:
        self._scratch = scratch
        self._command = [
            "unshare", "--mount", "buildah",
            "--root", str(store), "--runroot", str(scratch / "run"), "--storage-driver", "overlay",
        ]  # fmt: skip

    def __call__(self, *command: str | Path) -> str:
        return run(*self._command, *command)

    def has(self, tag: str) -> bool:
        return bool(self("images", "--quiet", "--filter", f"reference={tag}").strip())

    def build(self, tag: str, dockerfile: Path, context: Path, *options: str) -> None:
        policy = ("--isolation", "chroot", "--pull-never", "--layers", "--tag", tag, "--file", str(dockerfile))
        self("build", *policy, *options, context)

    def archive(self, tag: str, content: Path) -> Path:
        """Return an archive of an image for a containerd with this content, with the layers that are not in it."""
        layout = self._scratch / "archives" / tag.replace("/", "-").replace(":", "-")
        blobs = layout / "blobs" / "sha256"
        blobs.mkdir(parents=True)
        there = {each.name for each in (content / BLOBS).glob("*")}
        for name in there:
            os.link(content / BLOBS / name, blobs / name)
        self("push", "--quiet", "--disable-compression", tag, f"oci:{layout}:{tag}")
        for name in there:
            (blobs / name).unlink()
        archive = layout.with_suffix(".tar")
        run("tar", "--create", "--file", archive, "--directory", layout, ".")
        return archive


def _build(programs: Path, cache: Path, scratch: Path, environment: Mapping[str, str]) -> _Buildah:
    """Build all images."""
    buildah = _Buildah(cache / "images-store", scratch)
    base = _base(buildah, scratch, environment)
    options = ["--build-arg", f"BASE={base}", *_pip_options(scratch, environment)]
    for name, dockerfile in DOCKERFILES.items():
        with step(f"image {name}"):
            buildah.build(_tag(name), dockerfile, ROOT, *options)
    context = scratch / "pause"
    context.mkdir()
    shutil.copy2(programs / "pause", context)
    (context / "Dockerfile").write_text(PAUSE)
    buildah.build(_tag("pause"), context / "Dockerfile", context)
    return buildah


def _base(buildah: _Buildah, scratch: Path, environment: Mapping[str, str]) -> str:
    """Return the replacement for ``python:3.11-slim``: Debian's own Python on Debian."""
    mirror = environment.get("DEBIAN_MIRROR") or "http://deb.debian.org/debian"
    tag = f"localhost/springtide/base:{hashlib.sha256(f'{SUITE} {BASE_PACKAGES}'.encode()).hexdigest()[:12]}"
    if not buildah.has(tag):
        with step("base image from Debian's packages"):
            _build_base(buildah, tag, scratch, mirror)
    return tag


def _build_base(buildah: _Buildah, tag: str, scratch: Path, mirror: str) -> None:
    system = scratch / "system"
    run("debootstrap", "--variant=minbase", f"--include={BASE_PACKAGES}", SUITE, system, mirror)
    for left in ("var/cache/apt/archives", "var/lib/apt/lists"):
        shutil.rmtree(system / left)
        (system / left).mkdir()
    context = scratch / "base"
    context.mkdir()
    (context / "Dockerfile").write_text('FROM scratch\nADD system.tar /\nCMD ["python3"]\n')
    run("tar", "--create", "--file", context / "system.tar", "--directory", system, ".")
    buildah.build(tag, context / "Dockerfile", context)


def _pip_options(scratch: Path, environment: Mapping[str, str]) -> list[str]:
    """Return options that make pip inside a build use the same package index as pip here, not stored in images."""
    settings: dict[str, dict[str, str]] = {"global": {}}
    for line in run(sys.executable, "-m", "pip", "config", "list").splitlines():
        key, _, value = line.partition("=")
        section, _, option = key.rpartition(".")
        settings.setdefault("global" if section == ":env:" else section, {})[option] = ast.literal_eval(value)
    usual = settings["global"]
    for name in CERTIFICATES:
        if name in environment:
            usual.setdefault("cert", environment[name])
    config = scratch / "pip.conf"
    config.write_text(
        "".join(
            f"[{section}]\n" + "".join(f"{option} = {_continued(value)}\n" for option, value in options.items())
            for section, options in settings.items()
        )
    )
    volumes = [f"{config}:/etc/pip.conf:ro"]
    local = [usual.get("cert", ""), *usual.get("find-links", "").split()]
    volumes += [f"{each}:{each}:ro" for each in local if each and Path(each).exists()]
    return [part for volume in volumes for part in ("--volume", volume)]


def _continued(value: str) -> str:
    return "\n    ".join(str(value).split("\n"))


def _unpack(buildah: _Buildah, ready: Path, programs: Path, cache: Path) -> None:
    """Import the images into a containerd directory: a copy of the newest one, or a new one."""
    with directory_of_its_own(cache / "nodes") as directory:
        own = directory / "lib" / "containerd"
        own.parent.mkdir()
        if older := _unpacked(cache):
            run("cp", "--archive", "--link", older[0] / "containerd", own)
            for database in own.rglob("*.db"):
                database.unlink()
                shutil.copy2(older[0] / "containerd" / database.relative_to(own), database)
        enclosure = Enclosure(directory, programs / "pause").start()
        try:
            daemon = start_containerd(enclosure)
            _import((buildah.archive(_tag(name), own) for name in (*DOCKERFILES, "pause")), enclosure)
            enclosure.run("sh", "-c", "kill -TERM $(pidof containerd)")
            until(lambda: not daemon.runs(), "containerd has ended", timeout_s=CONTAINERD_TIMEOUT_S)
        finally:
            enclosure.stop()
        finished = directory / "images"
        finished.mkdir()
        (finished / "lock").touch()
        own.rename(finished / "containerd")
        finished.rename(ready)


def _import(archives: Iterable[Path], enclosure: Enclosure) -> None:
    """Import images. Replaced images stay until the end, because layers that both share could be deleted."""

    def images(command: str, *arguments: str | Path) -> str:
        return enclosure.run("ctr", "--namespace", "k8s.io", "images", command, *arguments)

    former = {tag: f"{tag}-before" for tag in images("list", "--quiet").split() if tag.endswith(":test")}
    for tag, kept in former.items():
        images("tag", tag, kept)
    for archive in archives:
        images("import", archive)
    if former:
        images("remove", "--sync", *former.values())

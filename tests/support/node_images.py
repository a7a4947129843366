"""The images of ``helm/images``, built without a registry and unpacked once, ready for the nodes of the tests."""

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

import cluster_tools
from control_plane import Daemon, until
from enclosure import Enclosure, check_machine, directory_of_its_own, run

ROOT = Path(__file__).parents[2]
CONTAINERD = ROOT / "tests" / "cluster" / "node" / "containerd.toml"
IMAGES = ("service", "notebook")
SOURCES = (
    ".dockerignore",
    "LICENSE",
    "README.md",
    "examples",
    "helm/images",
    "hub_extension",
    "pyproject.toml",
    "scheduler",
    "spawner",
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
CONTAINERD_TIMEOUT_S = 60.0


def image(name: str) -> str:
    """How a pod names one of ``IMAGES``; every node has them, and none can be pulled."""
    assert name in IMAGES, f"{name} is none of {IMAGES}"
    return _tag(name)


def _tag(name: str) -> str:
    return f"localhost/springtide/{name}:test"


@contextlib.contextmanager
def images(programs: Path, environment: Mapping[str, str] = os.environ) -> Iterator[Path]:
    """A directory of containerd with the images of the tree as it stands, built first where they are not.

    Minutes the first time, seconds after a change of the code. Several processes may ask at once; it stays as
    long as this lasts. Raises NoRealNodeError when this machine cannot build images.
    """
    check_machine()
    cache = cluster_tools.cache(environment)
    cache.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as held:
        with _locked(cache / "images.lock"):
            for unfinished in cache.glob("images-building-*-*"):
                if not Path(f"/proc/{unfinished.name.split('-')[2]}").exists():
                    shutil.rmtree(unfinished)
            ready = cache / f"images-{_digest(programs)}"
            if not ready.exists():
                with tempfile.TemporaryDirectory(prefix=f"images-building-{os.getpid()}-", dir=cache) as scratch:
                    _unpack(_build(programs, cache, Path(scratch), environment), ready, programs, cache)
            held.enter_context(_locked(ready / "lock", shared=True))
            for older in _unpacked(cache):
                if older != ready:
                    with _locked(older / "lock", wait=False) as unused:
                        if unused:
                            shutil.rmtree(older)
        yield ready / "containerd"


def copy_images(unpacked: Path, target: Path) -> None:
    """A directory of containerd for one node, which shares the files of the images with ``unpacked``."""
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
    """Start containerd inside, and wait until it serves."""
    daemon = enclosure.daemon("containerd", "--config", CONTAINERD)
    socket = enclosure.root / "run/containerd/containerd.sock"

    def serves() -> bool:
        if not daemon.runs():
            raise RuntimeError(f"containerd ended while it started:\n{daemon.tail()}")
        return socket.exists()

    until(serves, "containerd serves", timeout_s=CONTAINERD_TIMEOUT_S)
    return daemon


@contextlib.contextmanager
def _locked(path: Path, *, shared: bool = False, wait: bool = True) -> Iterator[bool]:
    """Hold a lock; tells whether it is held, which it always is for those who wait."""
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
        else:
            yield True


def _digest(programs: Path) -> str:
    found = hashlib.sha256(repr((SUITE, BASE_PACKAGES, IMAGES)).encode())
    for name in SOURCES:
        top = ROOT / name
        for path in sorted(top.rglob("*")) if top.is_dir() else [top]:
            if path.is_file() and "__pycache__" not in path.parts:
                found.update(f"{path.relative_to(ROOT)}\0{path.stat().st_mode & 0o111}\0".encode())
                found.update(hashlib.sha256(path.read_bytes()).digest())
    found.update((programs / "pause").read_bytes())
    return found.hexdigest()[:12]


def _unpacked(cache: Path) -> list[Path]:
    return list(cache.glob(f"images-{HEX * 12}"))


class _Buildah:
    """buildah with a store of its own; what it mounts is gone with each command."""

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
        """An archive of an image that is meant for a containerd with this content, and has what is not in it."""
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
    for name in IMAGES:
        print(f"Building the image {name}", flush=True)
        buildah.build(_tag(name), ROOT / "helm" / "images" / name / "Dockerfile", ROOT, *options)
    context = scratch / "pause"
    context.mkdir()
    shutil.copy2(programs / "pause", context)
    (context / "Dockerfile").write_text(PAUSE)
    buildah.build(_tag("pause"), context / "Dockerfile", context)
    return buildah


def _base(buildah: _Buildah, scratch: Path, environment: Mapping[str, str]) -> str:
    """The stand-in for ``python:3.11-slim``: Debian's own Python on Debian."""
    mirror = environment.get("DEBIAN_MIRROR") or "http://deb.debian.org/debian"
    tag = f"localhost/springtide/base:{hashlib.sha256(f'{SUITE} {BASE_PACKAGES}'.encode()).hexdigest()[:12]}"
    if not buildah.has(tag):
        print("Building the base image from Debian's packages; once, and about 2 minutes", flush=True)
        system = scratch / "system"
        run("debootstrap", "--variant=minbase", f"--include={BASE_PACKAGES}", SUITE, system, mirror)
        for left in ("var/cache/apt/archives", "var/lib/apt/lists"):
            shutil.rmtree(system / left)
            (system / left).mkdir()
        (system / "Dockerfile").write_text('FROM scratch\nADD system.tar /\nCMD ["python3"]\n')
        context = scratch / "base"
        context.mkdir()
        shutil.move(system / "Dockerfile", context)
        run("tar", "--create", "--file", context / "system.tar", "--directory", system, ".")
        buildah.build(tag, context / "Dockerfile", context)
    return tag


def _pip_options(scratch: Path, environment: Mapping[str, str]) -> list[str]:
    """pip inside a build finds packages where pip finds them here; nothing of it stays in an image."""
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
    """Bring the images into a directory of containerd: an older one, a copy of one in use, or a new one."""
    with directory_of_its_own(cache / "nodes") as directory:
        own = directory / "lib" / "containerd"
        own.parent.mkdir()
        for older in _unpacked(cache):
            with _locked(older / "lock", wait=False) as unused:
                if unused and not own.exists():
                    (older / "containerd").rename(own)
                    shutil.rmtree(older)
        in_use = _unpacked(cache)
        if in_use and not own.exists():
            run("cp", "--archive", "--link", in_use[0] / "containerd", own)
            for database in own.rglob("*.db"):
                database.unlink()
                shutil.copy2(in_use[0] / "containerd" / database.relative_to(own), database)
        enclosure = Enclosure(directory, programs / "pause").start()
        try:
            daemon = start_containerd(enclosure)
            _import((buildah.archive(_tag(name), own) for name in (*IMAGES, "pause")), enclosure)
            enclosure.run("sh", "-c", "kill -TERM $(pidof containerd)")
            until(lambda: not daemon.runs(), "containerd has ended", timeout_s=CONTAINERD_TIMEOUT_S)
        finally:
            enclosure.stop()
        finished = directory / "images"
        finished.mkdir()
        own.rename(finished / "containerd")
        finished.rename(ready)


def _import(archives: Iterable[Path], enclosure: Enclosure) -> None:
    """Take images in. Those they replace stay until all are there, or layers of both could be thrown away."""

    def images(command: str, *arguments: str | Path) -> str:
        return enclosure.run("ctr", "--namespace", "k8s.io", "images", command, *arguments)

    former = {tag: f"{tag}-before" for tag in images("list", "--quiet").split() if tag.endswith(":test")}
    for tag, kept in former.items():
        images("tag", tag, kept)
    for archive in archives:
        images("import", archive)
    if former:
        images("remove", "--sync", *former.values())

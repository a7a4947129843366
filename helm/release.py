"""Build what a version of Springtide publishes, and write down who pushes what where: ``make release``.

    python helm/release.py                           # all of it, from the tagged commit, into build/release
    python helm/release.py --trial packages chart    # two parts, from any tree
    python helm/release.py --registry registry.example.com/springtide --base debian:bookworm images

Parts: ``packages`` (wheel and sdist), ``sbom`` (the Python packages of each image, as CycloneDX), ``docs``,
``chart`` (with the registry's images) and ``images`` (by docker, podman or buildah). Each run ends with
``SHA256SUMS`` and ``PUBLISH.md`` for all that lies in the folder.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
IMAGES = ("service", "notebook")
REGISTRY = "ghcr.io/springtide"
SBOM_TOOL = "cyclonedx-bom>=7,<8"
SUMS = "SHA256SUMS"
INSTRUCTIONS = "PUBLISH.md"
TOOLS = ("docker", "podman", "buildah")
EXTRAS = re.compile(r'^ARG EXTRAS="([^"]+)"$', re.MULTILINE)


class ReleaseError(Exception):
    """The tree cannot be released, or a program that builds it failed; the text says what to do."""


@dataclass(frozen=True)
class Release:
    """Names and programs of a release.

    ``epoch`` is the time of its commit, in seconds. ``tool`` and ``helm`` are programs. ``base`` is the base
    image; empty: the Dockerfiles' own.
    """

    version: str
    folder: Path
    registry: str
    epoch: int
    tool: str
    helm: str
    base: str

    def image(self, name: str) -> str:
        """Return the reference of an image."""
        return f"{self.registry}/{name}:{self.version}"

    def archive(self, name: str) -> Path:
        """Return the place of an image's archive."""
        return self.folder / f"springtide-{name}-{self.version}.tar"

    @property
    def chart(self) -> Path:
        """The place of the packaged chart."""
        return self.folder / f"springtide-{self.version}.tgz"

    @property
    def wheel(self) -> Path:
        """The place of the wheel."""
        return self.folder / f"springtide-{self.version}-py3-none-any.whl"

    @property
    def sdist(self) -> Path:
        """The place of the source distribution."""
        return self.folder / f"springtide-{self.version}.tar.gz"

    @property
    def docs(self) -> Path:
        """The place of the archive of the site."""
        return self.folder / f"springtide-docs-{self.version}.tar.gz"


def version_of(root: Path) -> str:
    """Return the version of a tree. Raises `ReleaseError` when its files name several."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"]
    chart = (root / "helm/springtide/Chart.yaml").read_text()
    extension = (root / "widgets/lab_extension/package.json").read_text()
    named = {
        "pyproject.toml": project,
        "version in helm/springtide/Chart.yaml": _one(r"^version: (\S+)$", chart),
        "appVersion in helm/springtide/Chart.yaml": _one(r'^appVersion: "([^"]+)"', chart),
        "widgets/lab_extension/package.json": json.loads(extension)["version"],
    }
    if len(set(named.values())) > 1:
        listed = ", ".join(f"{value} ({place})" for place, value in named.items())
        raise ReleaseError(f"The tree names several versions: {listed}. Write one with `pipx run tbump VERSION`.")
    return str(project)


def _one(pattern: str, text: str) -> str:
    found = re.search(pattern, text, re.MULTILINE)
    return found[1] if found else "none"


def check_releasable(root: Path, version: str) -> None:
    """Raise `ReleaseError` unless the tree is the tagged commit of the version and the changelog names it."""
    if changed := _output("git", "status", "--porcelain", cwd=root):
        raise ReleaseError(f"The tree has changes:\n{changed}\nCommit them, or use --trial.")
    tag = f"v{version}"
    if tag not in _output("git", "tag", "--points-at", "HEAD", cwd=root).split():
        raise ReleaseError(f"The commit has no tag {tag}. `pipx run tbump {version}` makes it, or use --trial.")
    if f"\n## {version}" not in (root / "CHANGELOG.md").read_text():
        raise ReleaseError(f"CHANGELOG.md has no heading “## {version}”: rename “## Unreleased” to it.")


def packages(release: Release) -> None:
    """Build the sdist, and the wheel from what the sdist holds."""
    _run(sys.executable, "-m", "hatchling", "build", "-d", release.folder, "-t", "sdist", cwd=ROOT)
    with tempfile.TemporaryDirectory() as scratch:
        with tarfile.open(release.sdist) as archive:
            archive.extractall(scratch, filter="data")
        (unpacked,) = Path(scratch).iterdir()
        _run(sys.executable, "-m", "hatchling", "build", "-d", release.folder, "-t", "wheel", cwd=unpacked)


def sbom(release: Release) -> None:
    """List what each image installs with pip, in the versions of constraints.txt. Needs the wheel."""
    if not release.wheel.exists():
        packages(release)
    with tempfile.TemporaryDirectory() as scratch:
        tools = _environment(Path(scratch) / "tools", SBOM_TOOL)
        for image in IMAGES:
            extras = ",".join(extras_of((ROOT / f"helm/images/{image}/Dockerfile").read_text()))
            installed = _environment(
                Path(scratch) / image, "-c", str(ROOT / "constraints.txt"), f"{release.wheel}[{extras}]"
            )
            target = release.folder / f"springtide-{image}-{release.version}.cdx.json"
            _run(
                tools / "cyclonedx-py", "environment", "--output-reproducible", "--output-format", "JSON",
                "--output-file", target, installed / "python", cwd=ROOT,
            )  # fmt: skip


def extras_of(dockerfile: str) -> list[str]:
    """Return the extras that an image installs unless told otherwise."""
    found = EXTRAS.search(dockerfile)
    if found is None:
        raise ReleaseError('The Dockerfile has no line ARG EXTRAS="…".')
    return found[1].split()


def _environment(place: Path, *what: str) -> Path:
    """Install into a new environment; return the directory of its programs."""
    _run(sys.executable, "-m", "venv", place, cwd=ROOT)
    _run(place / "bin/pip", "install", "--quiet", *what, cwd=ROOT)
    return place / "bin"


def docs(release: Release) -> None:
    """Build the documentation's site into an archive with the commit's time on all files."""
    with tempfile.TemporaryDirectory() as scratch:
        site = Path(scratch) / f"springtide-docs-{release.version}"
        _run(sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "docs", site, cwd=ROOT)
        shutil.rmtree(site / ".doctrees", ignore_errors=True)
        with tarfile.open(release.docs, "w:gz") as archive:
            archive.add(site, site.name, filter=lambda entry: _plain(entry, release.epoch))


def _plain(entry: tarfile.TarInfo, epoch: int) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mtime = epoch
    return entry


def chart(release: Release) -> None:
    """Package the chart, with the images of the registry as its defaults."""
    if shutil.which(release.helm) is None:
        raise ReleaseError(f"There is no program {release.helm}: install Helm, or name it with --helm.")
    with tempfile.TemporaryDirectory() as scratch:
        copy = Path(scratch) / "springtide"
        shutil.copytree(ROOT / "helm/springtide", copy)
        values = (copy / "values.yaml").read_text()
        for image in IMAGES:
            default, published = f"repository: springtide/{image}\n", f"repository: {release.registry}/{image}\n"
            if values.count(default) != 1:
                raise ReleaseError(f"values.yaml should have “{default.strip()}” once.")
            values = values.replace(default, published)
        (copy / "values.yaml").write_text(values)
        _run(release.helm, "package", copy, "--destination", release.folder, cwd=ROOT)


def images(release: Release) -> None:
    """Build the images, and write each into an archive that the same program loads."""
    if shutil.which(release.tool) is None:
        raise ReleaseError(f"There is none of {', '.join(TOOLS)}: install one, or name it with --tool.")
    base = ("--build-arg", f"BASE={release.base}") if release.base else ()
    for name in IMAGES:
        tag, archive = release.image(name), release.archive(name)
        archive.unlink(missing_ok=True)
        _run(release.tool, "build", *base, "-f", f"helm/images/{name}/Dockerfile", "-t", tag, ".", cwd=ROOT)
        if Path(release.tool).name == "buildah":
            _run(release.tool, "push", tag, f"oci-archive:{archive}:{tag}", cwd=ROOT)
        else:
            _run(release.tool, "save", "-o", archive, tag, cwd=ROOT)


PARTS: Mapping[str, Callable[[Release], None]] = {
    "packages": packages,
    "sbom": sbom,
    "docs": docs,
    "chart": chart,
    "images": images,
}


def checksums(folder: Path) -> str:
    """Return the SHA-256 of each file, as `sha256sum --check` reads them."""
    files = sorted(path for path in folder.iterdir() if path.name not in {SUMS, INSTRUCTIONS})
    return "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files)


PACKAGES_TEXT = """## PyPI
Upload wheel and sdist (`pipx install twine`, a token of the project):

    twine check --strict {wheel} {sdist}
    twine upload {wheel} {sdist}
"""
CHART_TEXT = """## Chart
After the images, which it names:

    helm push {chart} oci://{registry}/charts

People install it with:

    helm install springtide oci://{registry}/charts/springtide --version {version} \\
      --namespace springtide --create-namespace
"""
DOCS_TEXT = """## Documentation
Unpack {docs} where the site is served from.
"""
FORGE_TEXT = """## Release on the forge
Make a release of the tag v{version} with its section of CHANGELOG.md, and attach:

"""


def instructions(release: Release) -> str:
    """Return the steps of a person with the files that were built, as Markdown."""
    there = {path.name for path in release.folder.iterdir()}
    names = {
        "version": release.version,
        "registry": release.registry,
        "wheel": release.wheel.name,
        "sdist": release.sdist.name,
        "chart": release.chart.name,
        "docs": release.docs.name,
    }
    sections = []
    if release.wheel.name in there:
        sections.append(PACKAGES_TEXT.format_map(names))
    if all(release.archive(name).name in there for name in IMAGES):
        sections.append(
            "## Images\n" + "".join(f"    {line}\n" for name in IMAGES for line in _pushes(release, name))
        )
    if release.chart.name in there:
        sections.append(CHART_TEXT.format_map(names))
    if release.docs.name in there:
        sections.append(DOCS_TEXT.format_map(names))
    attached = [name for name in sorted(there) if name == release.chart.name or name.endswith(".cdx.json")]
    sections.append(FORGE_TEXT.format_map(names) + "".join(f"- {name}\n" for name in [*attached, SUMS]))
    return (
        f"# Publish Springtide {release.version}\n\n"
        f"Check the files first: `sha256sum --check {SUMS}`. Then, in this order:\n\n" + "\n".join(sections)
    )


def _pushes(release: Release, name: str) -> list[str]:
    tag, archive = release.image(name), release.archive(name).name
    if Path(release.tool).name == "buildah":
        return [f"buildah pull oci-archive:{archive}", f"buildah push {tag}"]
    return [f"{release.tool} load -i {archive}", f"{release.tool} push {tag}"]


def _run(*command: object, cwd: Path) -> None:
    words = [str(word) for word in command]
    if subprocess.run(words, cwd=cwd, check=False).returncode:
        raise ReleaseError(f"`{' '.join(words)}` failed: its words are above.")


def _output(*command: str, cwd: Path) -> str:
    return subprocess.run(command, cwd=cwd, check=True, capture_output=True, text=True).stdout.strip()


def arguments(words: Sequence[str]) -> argparse.Namespace:
    """Return the parsed options."""
    parser = argparse.ArgumentParser(description="Build what a version of Springtide publishes.")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)}; default: all")
    parser.add_argument("--into", type=Path, default=ROOT / "build/release", help="folder; default: build/release")
    parser.add_argument("--registry", default=REGISTRY, help=f"of images and chart; default: {REGISTRY}")
    parser.add_argument("--tool", default=next(filter(shutil.which, TOOLS), TOOLS[0]), help="default: %(default)s")
    parser.add_argument("--base", default="", help="base image, for other than the Dockerfiles' own")
    parser.add_argument("--helm", default="helm", help="the program helm")
    parser.add_argument("--trial", action="store_true", help="build from a tree that is no tagged commit")
    found = parser.parse_args(words)
    if unknown := [part for part in found.parts if part not in PARTS]:
        parser.error(f"there is no part {', '.join(unknown)}; the parts are {', '.join(PARTS)}")
    return found


def main(words: Sequence[str]) -> None:
    """Build the parts; exit with code 1 and a sentence when something is missing."""
    options = arguments(words)
    try:
        version = version_of(ROOT)
        if not options.trial:
            check_releasable(ROOT, version)
        epoch = int(_output("git", "log", "-1", "--format=%ct", cwd=ROOT))
        os.environ["SOURCE_DATE_EPOCH"] = str(epoch)
        folder = options.into.resolve()
        folder.mkdir(parents=True, exist_ok=True)
        release = Release(version, folder, options.registry, epoch, options.tool, options.helm, options.base)
        for part in options.parts or PARTS:
            PARTS[part](release)
        (folder / SUMS).write_text(checksums(folder))
        (folder / INSTRUCTIONS).write_text(instructions(release))
    except ReleaseError as error:
        sys.exit(str(error))
    sys.stdout.write(f"{folder} has the release {version}: {INSTRUCTIONS} says what to push where.\n")


if __name__ == "__main__":
    main(sys.argv[1:])

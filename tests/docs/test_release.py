"""`make release`: wheel and sdist, the chart with published images, checksums, and the steps to publish them."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml
from clusters.chart import Helm
from clusters.cluster_tools import tools

ROOT = Path(__file__).parents[2]
RELEASE = ROOT / "helm/release.py"
REGISTRY = "registry.example.com/springtide"
LOOKED_AT = ("--kube-version", "1.34.0", "--set", "newSecretsWithoutCluster=true")
pytestmark = pytest.mark.cluster  # Helm is among the programs of the tests' cluster
FILES = ("pyproject.toml", "helm/release.py", "helm/springtide/Chart.yaml", "widgets/lab_extension/package.json")


def release(*words: str | Path, root: Path = ROOT) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, root / "helm/release.py", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=root)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a release of this tree: packages and chart."""
    folder = tmp_path_factory.mktemp("release") / "out"
    done = release(
        "--trial", "--into", folder, "--registry", REGISTRY, "--helm", tools() / "helm", "packages", "chart"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert str(folder) in done.stdout
    return folder


def test_the_wheel_made_from_the_sdist_is_the_wheel_of_the_tree(built: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(tmp_path), "-t", "wheel"]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (published,) = built.glob("*.whl")
    with zipfile.ZipFile(published) as ours, zipfile.ZipFile(tmp_path / published.name) as trees:
        assert sorted(ours.namelist()) == sorted(trees.namelist())
        assert "springtide/__main__.py" in ours.namelist()


def test_the_sdist_has_all_that_images_and_chart_are_made_of(built: Path) -> None:
    (sdist,) = [path for path in built.glob("springtide-*.tar.gz") if "docs" not in path.name]
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = {
        "helm/images/service/Dockerfile",
        "helm/images/requirements.py",
        "helm/springtide/Chart.yaml",
        "README.md",
    }
    assert wanted <= names


def test_the_packaged_chart_names_the_published_images(built: Path, tmp_path: Path) -> None:
    (chart,) = built.glob("*.tgz")
    with tarfile.open(chart) as archive:
        archive.extractall(tmp_path, filter="data")
    values = yaml.safe_load((tmp_path / "springtide/values.yaml").read_text())
    assert values["images"]["service"]["repository"] == f"{REGISTRY}/service"
    assert values["images"]["notebook"]["repository"] == f"{REGISTRY}/notebook"
    shown = Helm(tmp_path / "home").run("template", "springtide", str(chart), *LOOKED_AT)
    version = yaml.safe_load((tmp_path / "springtide/Chart.yaml").read_text())["appVersion"]
    assert f"{REGISTRY}/service:{version}" in shown


def test_the_checksums_are_those_of_the_files(built: Path) -> None:
    lines = [line.split("  ") for line in (built / "SHA256SUMS").read_text().splitlines()]
    listed = {name: digest for digest, name in lines}
    assert set(listed) == {path.name for path in built.iterdir()} - {"SHA256SUMS", "PUBLISH.md"}
    for name, digest in listed.items():
        assert hashlib.sha256((built / name).read_bytes()).hexdigest() == digest


def test_the_steps_name_each_file_that_is_there_and_no_other(built: Path) -> None:
    steps = (built / "PUBLISH.md").read_text()
    for path in built.iterdir():
        assert path.name == "PUBLISH.md" or path.name in steps
    assert f"helm push {next(built.glob('*.tgz')).name} oci://{REGISTRY}/charts" in steps
    assert "## Images" not in steps
    assert "## Documentation" not in steps


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A repository with the files that carry the version, committed and without a tag."""
    root = tmp_path / "tree"
    for name in FILES:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, root / name)
    (root / "CHANGELOG.md").write_text("# Changelog\n\n## Unreleased\n")
    git(root, "init", "--quiet")
    commit(root)
    return root


def git(root: Path, *words: str) -> None:
    name = ("-c", "user.name=susan", "-c", "user.email=susan@example.org", "-c", "commit.gpgsign=false")
    subprocess.run(["git", *name, *words], cwd=root, check=True, capture_output=True)


def commit(root: Path) -> None:
    git(root, "add", "--all")
    git(root, "commit", "--quiet", "-m", "All")


def refused(root: Path) -> str:
    done = release("--into", root.parent / "out", "--helm", "/nowhere/helm", "chart", root=root)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    return done.stderr


def test_only_the_tagged_commit_with_its_changes_is_released(tree: Path) -> None:
    assert "has no tag v" in refused(tree)
    version = refused(tree).partition("no tag v")[2].split(".`")[0].partition(". ")[0]
    git(tree, "tag", f"v{version}")
    assert f"no heading “## {version}”" in refused(tree)
    (tree / "CHANGELOG.md").write_text(f"# Changelog\n\n## {version} (2030-01-01)\n")
    assert "The tree has changes:\nM CHANGELOG.md" in refused(tree)
    commit(tree)
    git(tree, "tag", "--force", f"v{version}")
    assert "There is no program /nowhere/helm" in refused(tree)


def test_several_versions_in_one_tree_are_refused(tree: Path) -> None:
    path = tree / "helm/springtide/Chart.yaml"
    path.write_text(path.read_text().replace("appVersion: ", 'appVersion: "9.9.9" # '))
    words = refused(tree)
    assert "names several versions" in words
    assert "9.9.9 (appVersion in helm/springtide/Chart.yaml)" in words


def test_an_unknown_part_is_named() -> None:
    done = release("wheels")
    assert done.returncode == 2
    assert "there is no part wheels; the parts are packages, sbom, docs, chart, images" in done.stderr

"""A virtual environment with the frameworks that jobs train with, in the cache; pinned, and for processors only.

PyTorch's wheel is made for CUDA and loads its libraries at import, 3 GB more that nothing here could run on. In
their place are empty ones, of which every function returns an error: PyTorch finds no GPU, and all else is the
real thing.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from build_lock import alone
from clusters.cluster_tools import ToolsMissingError, cache
from machines import system_packages
from programs.commands import run, step

SETUPTOOLS = "setuptools==80.9.0"
REQUIREMENTS = (
    "click==8.5.1",
    "filelock==4.2.11",
    "fsspec==2026.9.0",
    "jax==0.10.2",
    "huggingface_hub==2.4.0",
    "jinja2==3.1.6",
    "keras==3.15.1",
    "lightgbm==4.7.0",
    "networkx==3.6.1",
    "numpy==2.4.6",
    "orbax-checkpoint==0.12.8",
    "packaging==26.3",
    "psutil==7.2.2",
    "pyyaml==6.0.3",
    "regex==2026.11.15",
    "safetensors==0.8.0",
    "scikit-learn==1.9.1",
    SETUPTOOLS,
    "sympy==1.14.0",
    "tokenizers==0.23.3",
    "tqdm==4.70.1",
    "typer==0.29.2",
    "typing_extensions==4.16.0",
)
WITHOUT_DEPENDENCIES = (
    "torch==2.15.0",
    "lightning==2.6.6",
    "lightning-utilities==0.15.3",
    "torchmetrics==1.9.0",
    "accelerate==1.15.0",
    "transformers==5.23.0",
    "xgboost-cpu==3.2.0",
)
"""Packages that would bring CUDA, or that require one of these."""
FURTHER = (
    "einops==0.8.2",
    "hjson==3.1.0",
    "mpi4py==4.1.2",
    "msgpack==1.2.4",
    "py-cpuinfo==9.0.0",
    "pydantic==2.14.3",
    SETUPTOOLS,
    "tensorflow-cpu==2.21.0",
)
"""Packages for `make frameworks` only, in an environment of their own on top of the other one."""
DEEPSPEED = "deepspeed==0.19.8"
"""Built against the PyTorch of the other environment."""
DEEPSPEED_BUILD = {"DS_ACCELERATOR": "cpu", "DS_BUILD_OPS": "0", "DS_BUILD_SHM_COMM": "1"}
"""On processors DeepSpeed loads an extension in C++; if it is not built here, the first job compiles it."""
SYSTEM_PACKAGES = {"mpirun": "openmpi-bin", "g++": "g++"}
"""Programs for the further frameworks, and the Debian packages that contain them."""
CUDA = re.compile(r"lib(cu|nv|nccl)")
COMPLETE = "complete"
NO_DEVICE = 100
"""The result of CUDA's functions without a GPU."""


def interpreter(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the interpreter of the environment. Raises `ToolsMissingError` if it is not complete."""
    return _interpreter(_directory(environment), "make tools")


def further_interpreter(environment: Mapping[str, str] = os.environ) -> Path:
    """Return the interpreter with all frameworks. Raises `ToolsMissingError` if it is not complete."""
    return _interpreter(_further_directory(environment), "make frameworks")


def build(environment: Mapping[str, str] = os.environ) -> Path:
    """Install the frameworks unless they are, and return the interpreter.

    Several processes may call this at once: one installs, the others wait for it.
    """
    directory = _directory(environment)
    directory.parent.mkdir(parents=True, exist_ok=True)
    with alone(directory.parent / "frameworks.lock", "the frameworks"):
        if not (directory / COMPLETE).exists():
            with step("frameworks of the jobs, 2 GB"):
                _install(directory)
                (directory / COMPLETE).touch()
    return interpreter(environment)


def build_further(environment: Mapping[str, str] = os.environ) -> Path:
    """Install the further frameworks, Open MPI and a C++ compiler unless they are, and return the interpreter."""
    base = build(environment)
    programs = SYSTEM_PACKAGES.items()
    missing = [package for name, package in programs if system_packages.find_program(name, environment) is None]
    system_packages.install(missing, environment)
    directory = _further_directory(environment)
    with alone(directory.parent / "frameworks.lock", "the frameworks"):
        if not (directory / COMPLETE).exists():
            with step("further frameworks of the jobs, 1.5 GB"):
                _install_further(directory, base)
                (directory / COMPLETE).touch()
    return further_interpreter(environment)


def _interpreter(directory: Path, command: str) -> Path:
    if not (directory / COMPLETE).exists():
        raise ToolsMissingError(f"The frameworks are not installed in {directory}: run `{command}`")
    return directory / "bin" / "python"


def _install_further(directory: Path, base: Path) -> None:
    shutil.rmtree(directory, ignore_errors=True)
    run(sys.executable, "-m", "venv", directory)
    (theirs,) = base.parent.parent.glob("lib/python*/site-packages")
    (ours,) = directory.glob("lib/python*/site-packages")
    (ours / "frameworks.pth").write_text(f"{theirs}\n")
    pip = (directory / "bin" / "python", "-m", "pip", "install", "--quiet", "--no-cache-dir")
    run(*pip, *FURTHER)
    built = {**os.environ, **DEEPSPEED_BUILD}
    run(*pip, "--no-deps", "--no-build-isolation", DEEPSPEED, environment=built)


def _install(directory: Path) -> None:
    shutil.rmtree(directory, ignore_errors=True)
    run(sys.executable, "-m", "venv", directory)
    pip = (directory / "bin" / "python", "-m", "pip", "install", "--quiet", "--no-cache-dir")
    run(*pip, *REQUIREMENTS)
    run(*pip, "--no-deps", *WITHOUT_DEPENDENCIES)
    (library,) = directory.glob("lib/python*/site-packages/torch/lib")
    _write_empty_libraries(library)


def _write_empty_libraries(library: Path) -> None:
    """Write the libraries of CUDA that those in this directory need and that are not there."""
    needed: set[str] = set()
    functions: dict[str, set[str]] = defaultdict(set)
    for path in library.glob("*.so*"):
        needed |= set(re.findall(r"NEEDED.*\[(.*)\]", run("readelf", "-dW", path)))
        for name in re.findall(r" U (\S+)$", run("nm", "-D", path), re.MULTILINE):
            function, _, version = name.replace("@@", "@").partition("@")
            functions[version].add(function)
    plain = {name for name in functions[""] if re.match(r"cu|nccl|nv|__cuda", name)}
    for name in sorted(needed):
        if CUDA.match(name) and not (library / name).exists():
            version = "NVSHMEM" if name.startswith("libnvshmem") else name
            _write_empty_library(library / name, functions.get(version) or plain, version)


def _write_empty_library(path: Path, functions: set[str], version: str) -> None:
    """Write a library whose functions, all with this version, return that there is no device."""
    source, versions = path.with_suffix(".c"), path.with_suffix(".map")
    aliases = (f'int {name}(void) __attribute__((alias("none")));\n' for name in sorted(functions))
    source.write_text(f"static int none(void) {{ return {NO_DEVICE}; }}\n" + "".join(aliases))
    versions.write_text(f"{version} {{ global: *; }};\n")
    flags = ("-shared", "-fPIC", "-w", "-fno-builtin", "-nostdlib", f"-Wl,-soname,{path.name}")
    run("gcc", *flags, f"-Wl,--version-script={versions}", "-o", path, source)
    source.unlink()
    versions.unlink()


def _directory(environment: Mapping[str, str]) -> Path:
    recipe = repr((REQUIREMENTS, WITHOUT_DEPENDENCIES, sys.version_info[:2]))
    return cache(environment) / f"frameworks-{hashlib.sha256(recipe.encode()).hexdigest()[:12]}"


def _further_directory(environment: Mapping[str, str]) -> Path:
    recipe = repr((_directory(environment), FURTHER, DEEPSPEED, DEEPSPEED_BUILD))
    return cache(environment) / f"frameworks-further-{hashlib.sha256(recipe.encode()).hexdigest()[:12]}"


if __name__ == "__main__":
    print(build_further())

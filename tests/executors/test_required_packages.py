"""Packages that jobs require: installed once, by the job's own account, from a wheel that lies beside the test."""

from __future__ import annotations

import fcntl
import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pip
import pytest
from benches.local_bench import LocalBench
from msgspec import structs
from programs.wheels import write_wheel

from springtide.scheduler.executors.accounts import Accounts
from springtide.scheduler.executors.base import ExitKind, FoundProgram
from springtide.scheduler.executors.local.executor import service_environment
from springtide.scheduler.executors.packages import program
from springtide.scheduler.executors.packages.steps import PackageSettings

SHOWS = "import tidal, msgspec, sys; print(tidal.WORD, tidal.__file__, sys.prefix)"
HERE = ".cache/springtide/environments"


@pytest.fixture
def wheels() -> Iterator[Path]:
    """A directory with one package, which every account may read."""
    place = Path(tempfile.mkdtemp(prefix="springtide-wheels-"))
    place.chmod(0o755)
    write_wheel(place)
    yield place
    shutil.rmtree(place)


@pytest.fixture
async def bench_with() -> AsyncIterator[Callable[..., Any]]:
    """Open a bench with settings of packages; its state is removed afterwards."""
    opened: list[LocalBench] = []

    async def bench_with(variables: dict[str, str], *, accounts: bool = False, **settings: Any) -> LocalBench:
        state = Path(tempfile.mkdtemp(prefix="springtide-test-"))
        state.chmod(0o711)
        packages = PackageSettings(pip_variables=variables, **settings)
        base = {**service_environment(), "HOME": str(state / "home")}
        bench = LocalBench(state, packages=packages, base_env=base, accounts=Accounts(state) if accounts else None)
        opened.append(bench)
        await bench.open()
        return bench

    yield bench_with
    for bench in opened:
        await bench.close()
        shutil.rmtree(bench.state)


@pytest.fixture
def silent_index() -> Iterator[str]:
    """The address of an unresponsive index, which only takes connections."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/simple"


def offline(wheels: Path) -> dict[str, str]:
    return {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels)}


async def test_packages_are_installed_once_beside_those_of_the_base_and_shared(
    bench_with: Callable[..., Any], wheels: Path
) -> None:
    bench = await bench_with(offline(wheels))
    for job in ("one", "two"):
        ended = await bench.run(bench.spec((sys.executable, "-c", SHOWS), job=job, requirements=("tidal==1.2",)))
        assert ended.exit is not None
        assert ended.exit.code == 0, (ended.exit.detail, await bench.log(job))
    first, second = [(await bench.log(job)).splitlines() for job in ("one", "two")]
    assert first[0] == "Installing 1 required: tidal==1.2"
    assert second == [first[-1]]
    word, file, prefix = second[0].split()
    place = bench.state / "home" / HERE
    assert word == "ebb"
    assert Path(file).is_relative_to(prefix)
    assert Path(prefix).parent == place
    assert place.stat().st_mode & 0o777 == 0o700


async def test_a_package_that_is_not_there_is_told_and_leaves_nothing(
    bench_with: Callable[..., Any], wheels: Path
) -> None:
    bench = await bench_with(offline(wheels))
    ended = await bench.run(bench.code("print('never')", requirements=("nowhere-to-be-found",)))
    assert ended.exit is not None
    assert ended.exit.kind is ExitKind.REFUSED
    told = "The packages that the job requires could not be installed. "
    assert ended.exit.detail.startswith(f"{told}No matching distribution found for nowhere-to-be-found")
    log = await bench.log("job")
    assert "No matching distribution found" in log
    assert "never" not in log
    assert not [path for path in (bench.state / "home" / HERE).iterdir() if path.is_dir()]


async def test_an_installation_that_takes_too_long_is_ended(
    bench_with: Callable[..., Any], silent_index: str
) -> None:
    bench = await bench_with({"PIP_INDEX_URL": silent_index}, packages_time=1.0)
    ended = await bench.run(bench.code("print('never')", requirements=("tidal",)))
    assert ended.exit is not None
    assert ended.exit.kind is ExitKind.REFUSED
    assert ended.exit.detail.endswith("could not be installed: it took longer than 1 s.")


async def test_a_job_is_paused_while_its_packages_are_installed(
    bench_with: Callable[..., Any], silent_index: str
) -> None:
    bench = await bench_with({"PIP_INDEX_URL": silent_index})
    spec = bench.code("print('never')", requirements=("tidal",))
    await bench.executor.launch(spec)
    await bench.until((bench.state / "home" / HERE).is_dir, "the installation has begun")
    status = await bench.status(spec.key)
    assert status.phase == "starting"
    await bench.executor.pause(spec.key)
    ended = await bench.gone(spec.key)
    assert ended.exit is not None
    assert (ended.exit.kind, ended.exit.paused) == (ExitKind.EXITED, True)


@pytest.mark.root
async def test_packages_are_installed_as_the_jobs_account_for_nobody_else(
    bench_with: Callable[..., Any], wheels: Path
) -> None:
    bench = await bench_with(offline(wheels), accounts=True)
    ended = await bench.run(
        bench.spec((sys.executable, "-c", SHOWS), user="susan-of-the-pool", requirements=("tidal",))
    )
    assert ended.exit is not None
    assert ended.exit.code == 0, (ended.exit.detail, await bench.log("job"))
    prefix = Path((await bench.log("job")).split()[-1])
    uid = bench.executor._accounts.of("susan-of-the-pool").uid
    assert uid not in {0, *(entry.pw_uid for entry in pwd.getpwall())}
    owners = {path.lstat().st_uid for path in (prefix.parent, *prefix.rglob("*"))}
    assert owners == {uid}
    assert prefix.parent.stat().st_mode & 0o077 == 0


def test_what_was_used_least_recently_is_removed_unless_a_job_uses_it(tmp_path: Path) -> None:
    for at, name in enumerate(("in-use", "oldest", "older", "kept")):
        (tmp_path / name).mkdir()
        (tmp_path / name / program.COMPLETE).write_text("100")
        os.utime(tmp_path / name / program.COMPLETE, (at, at))
    (tmp_path / "torn").mkdir()
    with program.locked(tmp_path / "in-use.lock", fcntl.LOCK_SH):
        program.remove_old(tmp_path, tmp_path / "kept", 300)
        left = {path.name for path in tmp_path.iterdir() if path.is_dir()}
        assert left == {"in-use", "older", "kept"}
    program.remove_old(tmp_path, tmp_path / "kept", 0)
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == ["kept"]


def test_another_base_or_other_requirements_are_another_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    first = program.digest(["b", "a"])
    assert program.digest(["a", "b"]) == first
    assert program.digest(["a"]) != first
    monkeypatch.setattr(program.sys, "prefix", "/elsewhere")
    assert program.digest(["a", "b"]) != first


async def test_a_script_of_the_python_below_runs_in_the_environment(
    bench_with: Callable[..., Any], wheels: Path, tmp_path: Path
) -> None:
    below = tmp_path / "below" / "bin"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", below.parent], check=True)
    site = next((below.parent / "lib").glob("python*/site-packages"))
    (site / "base.pth").write_text(f"{Path(pip.__file__).parents[1]}\n")
    (below / "torchrun").write_text(f"#!{below}/python\n{SHOWS}\n")
    (below / "torchrun").chmod(0o755)
    bench = await bench_with(offline(wheels))
    found = FoundProgram(str(below / "torchrun"), str(below / "python"), {"PATH": f"{below}:/usr/bin:/bin"})
    ended = await bench.run(structs.replace(bench.spec(("torchrun",), requirements=("tidal==1.2",)), found=found))
    assert ended.exit is not None
    assert ended.exit.code == 0, (ended.exit.detail, await bench.log("job"))
    assert (await bench.log("job")).splitlines()[-1].startswith(f"ebb {bench.state / 'home' / HERE}")

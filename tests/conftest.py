"""What each test needs besides Python, and how long it takes, as markers derived from its fixtures and its folder;
which tests share a worker; and how much the proofs prove.

`make check` runs with ``--fast``, which leaves out all tests with one of these markers. They are declared in
``pyproject.toml``.
"""

from __future__ import annotations

import atexit
import functools
import gc
import os
import secrets
import shutil
import signal
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from plugins import failures, group_fixtures, second_try
from plugins.group_fixtures import group_of

from springtide.scheduler.executors.accounts import registry

HERE = Path(__file__).parent

registry.MACHINE = Path(tempfile.mkdtemp(prefix="springtide-test-uids-")) / "uids.json"
"""Pools of tests record their uids apart from those of this machine."""
atexit.register(shutil.rmtree, registry.MACHINE.parent, ignore_errors=True)

# Programs that tests start read no start-up files, settings or kernels of the person who runs the tests. What is
# costly to build or to download stays where it is.
os.environ.setdefault("XDG_CACHE_HOME", str(Path.home() / ".cache"))
os.environ["HOME"] = tempfile.mkdtemp(prefix="springtide-test-home-")
atexit.register(shutil.rmtree, os.environ["HOME"], ignore_errors=True)

# Tests assert behaviour, never time: a busy machine takes long for an example.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

# A test that uses the fixture, directly or through another one, needs what the marker names.
MARKER_OF_FIXTURE = {"browser": "browser", "hub": "hub", "cluster": "cluster", "postgres": "database"}

# Folders and files below this one, to all of whose tests a marker applies by other reasons than a fixture.
MARKER_OF_FOLDER = {
    "api": "http",
    "api/test_generated_requests.py": "slow",
    "api/test_service_process.py": "process",
    "architecture/test_extras.py": "process",
    "architecture/test_groups.py": "process",
    "architecture/test_second_try.py": "process",
    "architecture/test_wheel.py": "process",
    "command/test_accounts.py": "process",
    "command/test_backup.py": "process",
    "command/test_doctor.py": "process",
    "command/test_explain.py": "process",
    "command/test_interrupted_up.py": "hub",
    "command/test_jobs_from_a_terminal.py": "process",
    "command/test_mcp.py": "process",
    "command/test_replay.py": "process",
    "command/test_single.py": "process",
    "command/test_up.py": "hub",
    "docs/test_code_blocks.py": "process",
    "docs/test_generated_parts.py": "process",
    "docs/test_recipes.py": "process",
    "docs/test_site.py": "process",
    "docs/test_troubleshooting.py": "slow",
    "engine/test_engine_local.py": "process",
    "engine/test_engine_misbehaviour.py": "slow",
    "engine/test_estimates.py": "slow",
    "engine/test_forecasts.py": "process",
    "engine/test_old_stores.py": "slow",
    "engine/test_placement_advice.py": "slow",
    "engine/test_reasons.py": "slow",
    "engine/test_renumbered_gpus.py": "process",
    "engine/test_unmatched_gpus.py": "process",
    "executors/test_local_contract.py": "process",
    "frameworks": "framework",
    "kubernetes/chart": "cluster",  # Helm is one of its programs
    "lab_extension/test_installed.py": "process",
    "oracles/test_coinciding_times.py": "slow",
    "oracles/test_counterfactuals.py": "slow",
    "oracles/test_public_reports.py": "slow",
    "oracles/test_starvation_streams.py": "slow",
    "oracles/test_symmetries.py": "slow",
    "oracles/test_tiny_pools_at_rest.py": "slow",
    "proofs/test_histories.py": "slow",
    "proofs/test_planted_faults.py": "slow",
    "proofs/test_starts_if.py": "slow",
    "proofs/test_tiny_pools.py": "slow",
    "real_code": "process",
    "real_gpus": "process",
    "reliability": "slow",
    "reliability/test_hub_kills.py": "hub",
    "reliability/test_job_folders.py": "process",
    "reliability/test_renumbered_kills.py": "hub",
    "server_extension/test_form_calls.py": "process",
    "server_extension/test_sending.py": "process",
    "server_extension/test_server.py": "process",
    "simulate/test_generated_files.py": "slow",
    "simulate/test_study.py": "slow",
    "training/test_gang.py": "process",
    "training/test_optuna.py": "slow",
    "training/test_run.py": "process",
    "widgets/test_cards.py": "process",
    "widgets/test_digits_example.py": "slow",
    "widgets/test_environments.py": "process",
    "widgets/test_images.py": "process",
    "widgets/test_jobs.py": "process",
    "widgets/test_kernel.py": "process",
    "widgets/test_options.py": "process",
    "widgets/test_results.py": "process",
    "widgets/test_sweep_capture.py": "process",
    "widgets/test_sweeps.py": "process",
}

# Groups of tests that run for minutes on one worker, longest first: they start first, so that none is left over.
LONG_GROUPS = (
    *("cluster-nodes", "cluster-executor", "cluster"),
    *("story", "lab", "hub-hostile", "hub-command", "chart", "frameworks", "real-code", "hub-spawner"),
    *("pages-0", "pages-1", "pages-2"),
)

NEEDS = frozenset({*MARKER_OF_FIXTURE.values(), *MARKER_OF_FOLDER.values(), "root"})


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    pluginmanager.register(second_try)
    parser.addoption("--soak", type=int, metavar="N", help="prove N times as much, on fresh random histories")
    parser.addoption("--fast", action="store_true", help="run the tests of `make check` only")
    parser.addoption("--full", action="store_true", help="run the tests that `make test` has no time for, too")
    parser.addoption("--seed", type=int, metavar="S", help="seed of the first random history")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Collect no garbage while modules are imported and tests collected: what comes then stays for the whole run.

    Later garbage collections leave it out. They come more rarely than Python's own setting has them, with which
    they take a tenth of a worker's time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(5_000, 20, 20)
        gc.enable()


def pytest_configure(config: pytest.Config) -> None:
    """Refuse to run when a file that is to have a marker is not there: its tests would run without."""
    config.pluginmanager.register(group_fixtures)
    config.pluginmanager.register(failures)
    if missing := [name for name in MARKER_OF_FOLDER if not (HERE / name).exists()]:
        raise pytest.UsageError(f"tests/conftest.py gives markers to {', '.join(missing)}, which is not there.")


@pytest.fixture(scope="session")
def soak(request: pytest.FixtureRequest) -> int:
    """How many times as much is to be proven; 0 for the usual suite."""
    return request.config.getoption("--soak", default=None) or 0


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Let SIGINT interrupt, also where the tests were started in the background of a shell, which ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def first_seed(request: pytest.FixtureRequest, soak: int) -> int:
    """The seed of the first random history: always the same ones in the suite, fresh ones in a soak."""
    asked = request.config.getoption("--seed", default=None)
    return asked if asked is not None else secrets.randbelow(1 << 32) if soak else 0


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """With --fast do not even import a file all of whose tests are left out."""
    return True if config.getoption("--fast") and _of_folder(collection_path) else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark, group and order the tests before pytest selects by `-m`; deselect those that the options leave out."""
    for item in items:
        for marker in sorted(_of_fixtures(item) | _of_folder(item.path)):
            item.add_marker(marker)
        if _shares(item) and not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group(str(item.path.relative_to(HERE))))
    left_out = {item for item in items if _is_left_out(item, config)}
    config.hook.pytest_deselected(items=list(left_out))
    items[:] = sorted((item for item in items if item not in left_out), key=_turn)


def _turn(item: pytest.Item) -> int:
    """Return when a test starts: those of long groups, of other groups, and long ones of their own come first."""
    group = group_of(item)
    if group is None:
        return len(LONG_GROUPS) + (1 if item.get_closest_marker("slow") else 2)
    return LONG_GROUPS.index(group) if group in LONG_GROUPS else len(LONG_GROUPS)


def _of_fixtures(item: pytest.Item) -> set[str]:
    fixtures = set(getattr(item, "fixturenames", ()))
    return {marker for name, marker in MARKER_OF_FIXTURE.items() if name in fixtures}


@functools.cache
def _of_folder(path: Path) -> frozenset[str]:
    here = path.relative_to(HERE)
    names = {each.as_posix() for each in (here, *here.parents)}
    return frozenset(MARKER_OF_FOLDER[name] for name in names & MARKER_OF_FOLDER.keys())


def _shares(item: pytest.Item) -> bool:
    """Return whether a test uses what is made once for its file: on several workers it were made several times."""
    fixtures = getattr(item, "_fixtureinfo", None)
    return fixtures is not None and any(
        definition.scope == "module" and definition.baseid  # those of plugins have none
        for definitions in fixtures.name2fixturedefs.values()
        for definition in definitions
    )


def _is_left_out(item: pytest.Item, config: pytest.Config) -> bool:
    if item.get_closest_marker("full") and not config.getoption("--full"):
        return True
    return bool(config.getoption("--fast")) and any(map(item.get_closest_marker, NEEDS))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fail a test that changes accounts where only root could; name one that needs a GPU where there is none."""
    if os.geteuid() != 0 and item.get_closest_marker("root"):
        pytest.fail(
            "changes accounts or processes of others: run as root, or leave it out with -m 'not root'", False
        )
    if item.get_closest_marker("gpu") and shutil.which("nvidia-smi") is None:
        pytest.skip("compares with nvidia-smi: this machine has no NVIDIA GPU")

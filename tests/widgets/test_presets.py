"""Presets in a notebook: named in submissions, sweeps, cells and forms; what is given wins."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from springtide.scheduler.client import Client
from springtide.scheduler.wire import PresetRequest
from springtide.widgets.connection import PoolError
from springtide.widgets.errors import OptionError
from springtide.widgets.magics import train as magic
from springtide.widgets.shared_pool import Pool, backend_of


def double(number: int) -> int:
    return number * 2


@pytest.fixture(autouse=True)
def small(client_of: Callable[[str], Client], workdir: Path) -> Iterator[None]:
    """A preset of the pool, and one for gangs; the working directory has no project."""
    admin, _ = client_of("admin"), workdir
    options = {"gpus": 2, "time_limit": "2h", "tags": ["small"], "env": {"A": "preset"}}
    admin.set_preset("small", PresetRequest(options=options, about="For a first try."))
    admin.set_preset("gang", PresetRequest(options={"workers": 2}, project="vision"))
    yield
    admin.delete_preset("small")
    admin.delete_preset("gang", "vision")


def shown(job: Any) -> tuple[Any, ...]:
    options = job.info.options
    return options.preset, options.gpus, options.time_limit, options.tags


def test_a_job_gets_what_it_does_not_say_from_its_preset(pool: Pool) -> None:
    assert shown(pool.submit(double, 2, preset="small")) == ("small", 2, 7200.0, ("small",))
    assert shown(pool.submit("true", preset="small", gpus=1, tags=[])) == ("small", 1, 7200.0, ())
    cell = magic(SimpleNamespace(user_ns={}, user_ns_hidden={}), "--preset small --time-limit 1h", "1", pool)
    assert shown(cell) == ("small", 2, 3600.0, ("small",))
    again = pool.submit("true", gpus=1).rerun(preset="small", time_limit="1m")
    assert shown(again) == ("small", 2, 60.0, ("small",))


def test_forecasts_and_presets_are_shown_before_anything_is_sent(pool: Pool) -> None:
    assert [(each.name, each.projects) for each in pool.presets] == [("small", ["vision"]), ("gang", ["vision"])]
    lines = repr(pool.presets).splitlines()
    assert [line.split()[0] for line in lines] == ["preset", "small", "gang"]
    assert "For a first try." in lines[1]
    assert ">For a first try.</td>" in pool.presets._repr_html_()
    assert pool.when(preset="small").forecast is not None
    with pytest.raises(PoolError, match=r"Jobs of project “vision” have no preset “smal”\. Did you mean “small”"):
        pool.submit("true", preset="smal")


def test_a_population_is_refused_workers_that_its_preset_gives(pool: Pool) -> None:
    with pytest.raises(OptionError, match="workers is 2"):
        pool.evolve(double, {"number": [1, 2]}, population=2, generations=1, every=1, metric="loss", preset="gang")


def test_a_form_sends_what_it_shows_and_the_variables_of_its_preset(pool: Pool) -> None:
    typed = {
        "preset": "small",
        "gpus": "1",
        "time_limit": "",
        "tags": "small",
        "project": "vision",
        "env": "B=own",
    }
    asked = {"kind": "command", "work": "true", "typed": typed}
    backend = backend_of(pool, dict)
    assert backend.answer({"do": "review", **asked})["value"]["problems"] == {}
    sent = backend.answer({"do": "submit", **asked})["value"]
    job = pool.job(sent["id"])
    assert shown(job) == ("small", 1, None, ("small",))
    environment = job.info.environment
    assert environment is not None
    assert {"A", "B"} <= set(environment.variables)

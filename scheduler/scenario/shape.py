"""The shape of a scenario file, checked by msgspec."""

from __future__ import annotations

import math
import re
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from springtide.scheduler.model import Order, Surplus
from springtide.scheduler.scenario.document import ScenarioError
from springtide.scheduler.wire.shapes import MAX_GPUS, Count, Positive
from springtide.scheduler.wire.submission import CoresText, GivenOptions, MemoryText
from springtide.scheduler.wording import given

Name = Annotated[str, Meta(min_length=1, max_length=253)]
Label = Annotated[str, Meta(max_length=253)]
Seconds = Annotated[float, Meta(ge=0, le=1e12)]
Cores = Annotated[float, Meta(ge=0.001, le=1e9)] | CoresText
Bytes = Annotated[int, Meta(ge=1)] | MemoryText
Priority = Annotated[int, Meta(ge=0, le=1_000_000)]
Quantity = Count | dict[Label, Count | None]
Stretch = tuple[Seconds, Seconds]
Indices = Annotated[list[Count], Meta(max_length=MAX_GPUS)]


class Part(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A part of a scenario; unknown keys are errors."""


class NodePart(Part, frozen=True, kw_only=True):
    """A train node. ``islands`` group GPU indices by the fastest link, ``sockets`` by processor.

    ``cpus`` and ``memory`` are the cores and the bytes of the node, of which each GPU comes with an equal part.
    ``rdma`` is the number of workers that may have RDMA there at a time. ``closed`` are the times, from start to
    end, in which nothing runs there.
    """

    name: Name
    gpus: Count
    gpu_type: Label = ""
    labels: dict[str, Label] = {}
    islands: list[list[Count]] = []
    sockets: list[list[Count]] = []
    available: bool = True
    cpus: Cores | None = None
    memory: Bytes | None = None
    rdma: Count = 0
    closed: list[tuple[Seconds, Seconds]] = []


class AmountsAtTimePart(Part, frozen=True, kw_only=True):
    """Another quota and limit of a project from a time to another; a field left out stays as it is."""

    start: Seconds
    end: Seconds
    quota: Count | dict[Label, Count | None] | UnsetType | None = UNSET
    limit: Count | dict[Label, Count | None] | UnsetType | None = UNSET


class ProjectPart(Part, frozen=True, kw_only=True):
    """A project. ``quota`` null is unlimited, ``limit`` null is none; both may be tables by GPU type.

    They are others at the times ``at_times``.
    """

    name: Name
    parent: Name | None = None
    quota: Quantity | None = 0
    limit: Quantity | None = None
    weight: Annotated[float, Meta(ge=0, le=1e6)] = 1.0
    priority: Priority = 100
    at_times: list[AmountsAtTimePart] = []


class JobPart(GivenOptions, frozen=True, kw_only=True):
    """A job with its options. ``placed`` names each running worker's node, ``duration`` is its whole run time.

    Of that it had ``worked`` a part before the scenario begins, and was ``started`` first at that time. In each
    stretch of ``away`` people or a test run kept it from running; it was ``cancelled`` at that time if it had not
    ended. One that was ``stopped`` did not end by itself, however long it runs. If it ``saves``, a pause loses
    nothing, or what came after the last checkpoint if it saves only every ``checkpoint_every`` seconds.
    ``usual_runtime`` is the run time that jobs like it had.
    """

    name: Name
    project: Name
    user: Label = ""
    gpus: Positive = 1
    submitted: Seconds = 0.0
    duration: Seconds | None = None
    placed: tuple[Name | None, ...] = ()
    worked: Seconds = 0.0
    started: Seconds | None = None
    away: tuple[Stretch, ...] = ()
    cancelled: Seconds | None = None
    stopped: bool = False
    saves: bool = True
    checkpoint_every: Annotated[float, Meta(gt=0, le=1e12)] | None = None
    usual_runtime: Seconds | None = None


class ChangePart(Part, frozen=True, kw_only=True):
    """A change of the pool ``at`` a time: quotas and limits by project, the rest by node.

    A node has ``gpus`` from then on, 0 if it is not there, and is ``available`` for new attempts or not; ``taken``
    are indices of its GPUs that no job gets. Jobs on the nodes that it ``empties`` are paused.
    """

    at: Seconds
    quota: dict[Name, Quantity | None] = {}
    limit: dict[Name, Quantity | None] = {}
    gpus: dict[Name, Count] = {}
    available: dict[Name, bool] = {}
    taken: dict[Name, Indices] = {}
    empties: tuple[Name, ...] = ()


class SettingsPart(Part, frozen=True, kw_only=True):
    """Settings of the pool for `springtide simulate`, whose options go before them; times are in seconds."""

    order: Order | None = None
    min_runtime: Seconds | None = None
    restart_cost: Seconds = 0.0
    use_half_life: Annotated[float, Meta(ge=60, le=1e12)] | None = None


class Document(Part, frozen=True, kw_only=True):
    """A whole scenario. Projects are listed oldest first, ``gpu_types`` the cheapest first.

    ``span`` are the times at which the simulation begins and ends; else it begins with the first submission and
    ends with the last job. ``origin`` is the time 0 in seconds since the epoch, ``prices`` are those of a GPU-hour
    by GPU type, and ``notes`` say what the scenario leaves out.
    """

    nodes: list[NodePart]
    projects: list[ProjectPart]
    jobs: list[JobPart] = []
    gpu_types: list[Label] = []
    surplus: Surplus = Surplus.FAIR
    span: Stretch | None = None
    changes: list[ChangePart] = []
    settings: SettingsPart = SettingsPart()
    origin: Seconds | None = None
    prices: dict[Label, Annotated[float, Meta(ge=0, le=1e12)]] = {}
    notes: list[str] = []


KEYS: dict[str, type[Struct]] = {
    "nodes": NodePart,
    "projects": ProjectPart,
    "jobs": JobPart,
    "changes": ChangePart,
    "settings": SettingsPart,
    "at_times": AmountsAtTimePart,
}

_AT = re.compile(r"^(?P<what>.*?)(?: - at `\$(?P<path>[^`]*)`)?$", re.DOTALL)
_KEY = re.compile(r"^(?P<what>.*?) - at `key` in `\$(?P<path>[^`]*)`$", re.DOTALL)
_NAME = re.compile(r"[a-z_]+")
_STEP = re.compile(r"\.(?P<key>\w+)|\[(?P<index>\d+)\]")


def shaped(data: Any, shown: str) -> Document:
    """Return ``data`` as a `Document`. Raises `ScenarioError` with the field, the value and the expected form."""
    try:
        return msgspec.convert(data, Document)
    except msgspec.ValidationError as error:
        raise _explained(str(error), data, shown) from None


def _explained(message: str, data: Any, shown: str) -> ScenarioError:
    on_key = _KEY.match(message)
    match = on_key or _AT.match(message)
    assert match is not None
    path, what = (match["path"] or "").lstrip("."), match["what"].replace("`", "")
    if on_key:
        return ScenarioError(shown, path or "(top level)", f"{_lower(what)} as key")
    if unknown := re.fullmatch(r"Object contains unknown field (.*)", what, re.DOTALL):
        return ScenarioError(shown, _join(path, unknown[1]), f"unknown key, expected one of {_keys_at(path)}")
    if missing := re.fullmatch(r"Object missing required field (.*)", what, re.DOTALL):
        return ScenarioError(shown, _join(path, missing[1]), "missing, expected a value")
    found, given = _given(path, data)
    expected = what.split(", got ")[0]
    suffix = f", got {given}" if found else ""
    return ScenarioError(shown, path or "(top level)", f"{_lower(expected)}{suffix}")


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _keys_at(path: str) -> str:
    parts = [name for name in _NAME.findall(path) if name in KEYS]
    part = KEYS[parts[-1]] if parts else Document
    return ", ".join(part.__struct_fields__)


def _given(path: str, data: Any) -> tuple[bool, str]:
    """Return whether the path leads to a value, and that value in the notation of the file."""
    for step in _STEP.finditer(f".{path}" if path and not path.startswith("[") else path):
        try:
            data = data[step["key"]] if step["key"] else data[int(step["index"])]
        except (KeyError, IndexError, TypeError):
            return False, ""
    if "[...]" in path:
        return False, ""
    return True, _shown(data)


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "infinity"
    return given(value, 60)

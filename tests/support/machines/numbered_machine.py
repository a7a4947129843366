"""GPUs that a test enumerates, and which real processes are on them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from springtide.scheduler.gpu_types import DeclaredTypes
from springtide.scheduler.telemetry.machine import Device, GpuCount, SimulatedMachine, divide

MODEL = "NVIDIA A100"


class NumberedMachine(SimulatedMachine):
    """A machine whose driver lists simulated GPUs in this order, each with its model if that is not `MODEL`."""

    def __init__(
        self,
        uuids: Iterable[str],
        build_gpus: GpuCount = 0,
        *,
        models: dict[str, str] | None = None,
        types: DeclaredTypes | None = None,
    ) -> None:
        super().__init__(1, 0)
        self.listed = [Device(uuid, (models or {}).get(uuid, MODEL), 0) for uuid in uuids]
        self.nodes = divide(self.listed, build_gpus, types, simulated=True)


def environments(state: Path) -> dict[str, dict[str, str]]:
    """Return the environment of a process of each live attempt below a state directory, by ``job.attempt``."""
    found: dict[str, dict[str, str]] = {}
    mark = f"{state.resolve()}/jobs/"
    for place in Path("/proc").iterdir():
        if not place.name.isdecimal():
            continue
        try:
            content = (place / "environ").read_bytes()
        except OSError:
            continue
        values = dict(each.partition("=")[::2] for each in content.decode(errors="replace").split("\0"))
        if values.get("SPRINGTIDE_PAUSE_FILE", "").startswith(mark):
            found[f"{values['SPRINGTIDE_JOB_ID']}.{values['SPRINGTIDE_ATTEMPT']}"] = values
    return found


def gpus_by_process(state: Path) -> dict[str, list[str]]:
    """Return the GPUs of each live attempt, by ``job.attempt``, as the environments of its processes have them."""
    return {
        attempt: [gpu for gpu in values.get("CUDA_VISIBLE_DEVICES", "").split(",") if gpu]
        for attempt, values in environments(state).items()
    }


def given_twice(held: Iterable[Sequence[str]]) -> set[str]:
    """Return the GPUs that several holders have."""
    seen: set[str] = set()
    twice: set[str] = set()
    for gpus in held:
        twice |= seen & set(gpus)
        seen |= set(gpus)
    return twice

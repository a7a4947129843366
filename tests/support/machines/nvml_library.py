"""GPUs for machines without any: a library in NVML's place, whose answers a test gives."""

from __future__ import annotations

import ctypes
import mmap
from ctypes import Structure, c_char, c_int32, c_uint32, c_uint64
from pathlib import Path

from machines.c_library import compile_library

SOURCE = Path(__file__).with_name("nvml_library.c")
NAME = "libnvidia-ml.so.1"
STATE = "NVML_STATE"
CALLS = (
    "handle",
    "uuid",
    "name",
    "memory",
    "utilization",
    "power",
    "temperature",
    "processes",
    "ecc",
    "nvlink",
    "pcie",
    "events",
)
MOST_GPUS = 16
MOST_PROCESSES = 32
MOST_EVENTS = 16
NOT_SUPPORTED = 3
UNKNOWN = 999
LOST = 15
GIB = 1 << 30
H100 = "NVIDIA H100 80GB HBM3"


class Gpu(Structure):
    """The answers of one GPU, as ``struct gpu`` of the library has them."""

    _fields_ = (
        ("uuid", c_char * 96),
        ("name", c_char * 96),
        ("bus", c_char * 32),
        *((name, c_uint64) for name in ("memory_total", "memory_used", "ecc_corrected", "ecc_uncorrected")),
        *((name, c_uint64) for name in ("nvlink_received", "nvlink_sent")),
        *((name, c_uint32) for name in ("utilization", "power", "temperature", "pcie_received", "pcie_sent")),
        ("processes", c_uint32),
        ("pids", c_uint32 * MOST_PROCESSES),
        ("linked", c_uint32),
        ("whole", c_int32),
        ("errors", c_int32 * len(CALLS)),
    )


class _State(Structure):
    _fields_ = (
        ("init_error", c_int32),
        ("gpus", c_uint32),
        ("events", c_uint32),
        ("event_gpu", c_uint32 * MOST_EVENTS),
        ("event_xid", c_uint64 * MOST_EVENTS),
        ("gpu", Gpu * MOST_GPUS),
    )


def build(folder: Path) -> Path:
    """Compile the library into ``folder``, and return its path."""
    return compile_library(SOURCE, folder / NAME)


class Driver:
    """The answers of the library in the file ``path``; a process with ``environment`` finds these GPUs."""

    def __init__(self, path: Path, library: Path) -> None:
        path.write_bytes(bytes(ctypes.sizeof(_State)))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 0)
        self._state = _State.from_buffer(self._map)
        self.environment = {STATE: str(path), "LD_LIBRARY_PATH": str(library.parent)}

    def add(self, number: int = 1, *, name: str = H100, memory: int = 80 * GIB, whole: int = -1) -> None:
        """Add GPUs, or MIG devices of the GPU with the index ``whole``."""
        for _ in range(number):
            index = self._state.gpus
            kind = "GPU" if whole < 0 else "MIG"
            gpu = self._state.gpu[index]
            gpu.uuid, gpu.name = f"{kind}-{index:08d}".encode(), name.encode()
            gpu.bus, gpu.memory_total, gpu.whole = f"00000000:{index:02X}:00.0".encode(), memory, whole
            self._state.gpus = index + 1

    def __getitem__(self, index: int) -> Gpu:
        gpu: Gpu = self._state.gpu[index]
        return gpu

    def fail(self, index: int, *calls: str, error: int = NOT_SUPPORTED) -> None:
        """Have calls about a GPU answer with an error; all calls if none is named."""
        for call in calls or CALLS:
            self._state.gpu[index].errors[CALLS.index(call)] = error

    def refuse(self, error: int) -> None:
        """Have the driver not start."""
        self._state.init_error = error

    def raise_xid(self, index: int, xid: int) -> None:
        """Report an Xid error of a GPU."""
        at = self._state.events
        self._state.event_gpu[at], self._state.event_xid[at] = index, xid
        self._state.events = at + 1

    def compute(self, index: int, *pids: int) -> None:
        """Have processes compute on a GPU."""
        self._state.gpu[index].pids[: len(pids)] = pids
        self._state.gpu[index].processes = len(pids)

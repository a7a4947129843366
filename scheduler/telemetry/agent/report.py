"""Report of an agent on its node: GPUs, their readings, and the pods that they are assigned to.

The service takes a report for hostile input: `decode` accepts nothing that is out of bounds.
"""

from __future__ import annotations

from typing import Annotated, Final

import msgspec

from springtide.scheduler.gpu_reading import Count, Reading
from springtide.scheduler.resources.network_cards import Within

MOST_GPUS: Final = 256
"""Maximum number of GPUs and MIG devices of one node."""
MOST_CARDS: Final = 64
"""Maximum number of network cards near one GPU."""
MOST_PODS: Final = 1024
"""Maximum number of pods with GPUs on one node."""
MOST_BYTES: Final = 1 << 20
"""Maximum size of a report in bytes."""

GpuId = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9:/_.-]{0,95}$")]
ObjectName = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$")]
ResourceName = Annotated[str, msgspec.Meta(pattern=r"^([A-Za-z0-9][A-Za-z0-9./_-]{0,253})?$")]
CardName = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$")]
PlainText = Annotated[str, msgspec.Meta(pattern=r"^[ -~]{0,200}$")]


class ReportError(Exception):
    """A report that cannot be true; the message is one sentence."""


class XidEvent(msgspec.Struct, frozen=True):
    """An Xid error of the last minute. ``seq`` counts the errors that the agent has seen."""

    seq: Count
    xid: Annotated[int, msgspec.Meta(ge=0, le=100_000)]


class ReportedCards(msgspec.Struct, frozen=True):
    """The network cards nearest to a GPU, and what they have in common with it, as in `NearestCards`."""

    within: Within
    names: Annotated[tuple[CardName, ...], msgspec.Meta(min_length=1, max_length=MOST_CARDS)]


class ReportedGpu(msgspec.Struct, frozen=True, omit_defaults=True):
    """A GPU or MIG device of the node.

    ``linked`` are the GPUs that it has the fastest link to, as indexes of the report's list; ``socket`` is the
    number of its processor socket (NUMA node). ``resource`` is the extended resource under which the node offers
    it, empty if the kubelet does not say. ``cards`` are the network cards nearest to it. ``xids`` are its Xid
    errors of the last minute.
    """

    uuid: GpuId
    name: PlainText = ""
    memory_mib: Count = 0
    linked: Annotated[tuple[Count, ...], msgspec.Meta(max_length=MOST_GPUS)] = ()
    socket: Annotated[int, msgspec.Meta(ge=0, le=4096)] | None = None
    resource: ResourceName = ""
    reading: Reading = Reading()
    xids: Annotated[tuple[XidEvent, ...], msgspec.Meta(max_length=1000)] = ()
    cards: ReportedCards | None = None


class PodGpus(msgspec.Struct, frozen=True):
    """The GPUs that the kubelet has assigned to a pod."""

    namespace: ObjectName
    name: ObjectName
    gpus: Annotated[tuple[GpuId, ...], msgspec.Meta(max_length=MOST_GPUS)]


class NodeReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """Report on one node.

    ``agent`` is chosen anew whenever the agent starts; the numbers of its Xid errors begin anew then. ``problem``
    says why the agent does not know all of this, in a sentence.
    """

    agent: Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{16}$")]
    gpus: Annotated[tuple[ReportedGpu, ...], msgspec.Meta(max_length=MOST_GPUS)] = ()
    pods: Annotated[tuple[PodGpus, ...], msgspec.Meta(max_length=MOST_PODS)] = ()
    problem: PlainText = ""


_DECODER: Final = msgspec.json.Decoder(NodeReport)


def encode(report: NodeReport) -> bytes:
    """Return a report as JSON."""
    return msgspec.json.encode(report)


def decode(data: bytes) -> NodeReport:
    """Return the report in JSON. Raises `ReportError`."""
    if len(data) > MOST_BYTES:
        raise ReportError(f"The report has more than {MOST_BYTES} bytes.")
    try:
        report = _DECODER.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ReportError(f"The report is not one of an agent: {error}.") from None
    if len({gpu.uuid for gpu in report.gpus}) < len(report.gpus):
        raise ReportError("The report has a GPU twice.")
    if any(index >= len(report.gpus) for gpu in report.gpus for index in gpu.linked):
        raise ReportError("The report has a link to a GPU that is not in it.")
    return report

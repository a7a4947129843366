"""Settings of the service for faults of GPUs: what counts as one, and whether the GPU is drained."""

from __future__ import annotations

from traitlets import Bool, Float, HasTraits, Integer, List

from springtide.scheduler.telemetry.faults import HARDWARE_XIDS, FaultRules


class FaultTraits(HasTraits):
    """The settings, as a part of those of the service."""

    drain_faulty_gpus = Bool(
        True,
        help="Drain a GPU of this machine that reports a fault: nothing new starts on it, and its job goes on "
        "elsewhere. On a cluster the device plugin does this.",
    ).tag(config=True)
    fault_xids = List(
        Integer(min=1),
        sorted(HARDWARE_XIDS),
        help="The Xid errors of NVIDIA's driver that count as a fault.",
    ).tag(config=True)
    fault_ecc_errors = Integer(
        1,
        min=0,
        help="So many uncorrected ECC errors since the driver was loaded, and each further one, count as a fault; "
        "0: none does.",
    ).tag(config=True)

    slow_node_ratio = Float(
        1.5,
        min=1.1,
        allow_none=True,
        help="A node on which the same jobs took so many times as long as on at least two others with the same "
        "GPUs is drained, if chance is ruled out; None: no node is. Only with `drain_faulty_gpus`.",
    ).tag(config=True)

    def fault_rules(self) -> FaultRules:
        """Return the rules that the settings describe."""
        return FaultRules(
            self.drain_faulty_gpus, frozenset(self.fault_xids), self.fault_ecc_errors, self.slow_node_ratio
        )

"""Draining of GPUs whose readings show a fault of the hardware."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence

from springtide.scheduler.engine.requests.drains import drain_faulty
from springtide.scheduler.engine.state.transaction import Transaction
from springtide.scheduler.gpu_reading import Reading
from springtide.scheduler.model import Reason
from springtide.scheduler.refusal import Refusal
from springtide.scheduler.store.gpu_usage import UsageRecord
from springtide.scheduler.telemetry.faults import FaultRules, fault, remembered
from springtide.scheduler.telemetry.sample import GpuSample

logger = logging.getLogger(__name__)


class GpuFaults:
    """Compares each reading of a GPU with the one before, and has GPUs with a new fault drained by ``change``.

    A fault whose drain could not be committed is kept for the next reading.
    """

    def __init__(
        self, rules: FaultRules, change: Callable[[Callable[[Transaction], None]], Awaitable[None]]
    ) -> None:
        self._rules = rules
        self._change = change
        self._before: dict[str, Reading] = {}
        self._open: dict[str, Reason] = {}

    def recall(self, records: Sequence[UsageRecord]) -> None:
        """Take in the last readings from before a restart: their errors are not new."""
        for record in records:
            self._before[record.key.gpu] = record.reading

    async def check(self, samples: Sequence[GpuSample]) -> None:
        """Drain the GPUs that show a fault which they did not show before."""
        for sample in samples:
            before = self._before.get(sample.uuid)
            found = fault(before, sample, self._rules)
            if found is not None:
                self._open.setdefault(sample.uuid, found)
            self._before[sample.uuid] = remembered(before, sample.reading)
        if not self._open:
            return
        faults = dict(self._open)
        try:
            await self._change(lambda transaction: drain_faulty(transaction, faults))
        except Refusal as refusal:
            logger.warning("GPUs with a fault are not drained yet: %s", refusal.message)
        else:
            self._open.clear()
            logger.error(
                "GPUs with a fault were drained: %s",
                ", ".join(f"{gpu}: {why.code} {dict(why.params)}" for gpu, why in faults.items()),
            )

"""Why a message was not delivered."""

from __future__ import annotations

from springtide.scheduler.model import Reason
from springtide.scheduler.notifications import DeliveryState


class NotDelivered(Exception):  # noqa: N818 - an outcome, not a program error
    """A message was not delivered; ``why`` says it in words for its recipient, without secrets.

    ``state`` is `DeliveryState.WAITING` if nothing has arrived and another attempt may succeed, at the earliest
    after ``wait`` seconds; ``FAILED`` if it would not; ``UNKNOWN`` if the message may have arrived.
    """

    def __init__(self, state: DeliveryState, reason: str, /, *, wait: float = 0.0, **params: str | int) -> None:
        super().__init__(reason)
        self.state = state
        self.why = Reason(reason, params)
        self.wait = wait

"""Budgets of projects."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

from springtide.scheduler.wire.shapes import Answer, Request


class BudgetRequest(Request, frozen=True, kw_only=True):
    """A budget of a project, with those inside it, for each month.

    The ``amount``, of at most two decimals, is ``money`` in the currency of the prices, or in ``gpu-hours``.
    Beyond it admins and leads are notified (``tell``), and jobs run only within the quota (``no-borrowing``), or
    go ``last`` beyond it.
    """

    amount: Annotated[float, Meta(gt=0, le=1e12)]
    unit: Literal["money", "gpu-hours"] = "money"
    beyond: Literal["tell", "no-borrowing", "last"] = "tell"


class BudgetView(Answer, frozen=True, kw_only=True):
    """The budget of a project, and what it has ``spent`` of it in the ``month``, such as 2026-11.

    ``unit`` and ``beyond`` are those of `BudgetRequest`; ``by`` has set it at ``since``, in seconds since the
    epoch. ``over`` says that it is spent, ``text`` what that means, in whole sentences.
    """

    project: str
    amount: float
    unit: str
    beyond: str
    by: str
    since: float
    month: str
    spent: float
    over: bool
    currency: str = ""
    text: str

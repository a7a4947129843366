"""Calls about bookings: nodes and GPUs set apart from a start to an end."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from springtide.hub_extension.api.routes import Call, Who, route
from springtide.scheduler.wire import BookingRequest, Bookings, NewBooking

Number = Annotated[int, Meta(ge=1)]


@route("GET", "/bookings", Who.LOGGED_IN)
async def bookings(call: Call) -> Bookings:
    """Return the bookings that hold or are to come, the first to begin first."""
    return call.pool.engine.bookings()


@route("POST", "/bookings", Who.ADMINS, status=201)
async def book(call: Call, body: BookingRequest) -> NewBooking:
    """Set nodes apart for a maintenance, or GPUs for a project, from a start to an end."""
    return await call.pool.engine.book(body, call.caller.name)


@route("DELETE", "/bookings/{number}", Who.ADMINS)
async def cancel_booking(call: Call, number: Number) -> None:
    """Take a booking back, before it begins or while it holds."""
    await call.pool.engine.cancel_booking(number, call.caller.name)

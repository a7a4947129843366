"""Calls about bookings: nodes and GPUs set apart from a start to an end."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from msgspec import Meta

from springtide.hub_extension.api import permissions
from springtide.hub_extension.api.jobs import take
from springtide.hub_extension.api.routes import Call, Who, route
from springtide.scheduler.wire import BookingPreview, BookingRequest, Bookings, CancelledBooking, NewBooking

Number = Annotated[int, Meta(ge=1)]


@route("GET", "/bookings", Who.LOGGED_IN)
async def bookings(call: Call) -> Bookings:
    """Return the bookings that hold or are to come, the first to begin first."""
    return call.pool.engine.bookings()


@route("POST", "/bookings", Who.ADMINS, status=201)
async def book(call: Call, body: BookingRequest) -> NewBooking:
    """Set nodes apart for a maintenance, or GPUs for a project, from a start to an end; or change a booking."""
    return await call.pool.engine.book(body, call.caller.name)


@route("POST", "/bookings/preview", Who.ADMINS)
async def preview_booking(call: Call, body: BookingRequest) -> BookingPreview:
    """Return what a booking would do: to quotas, to what others borrow, and to jobs. Nothing is booked."""
    sees = partial(permissions.may_see_of, call.caller)
    take(call.pool.forecasts, call.caller, "You ask what would be faster than this pool answers one person.")
    return await call.pool.engine.preview_booking(body, call.caller.name, sees=sees)


@route("DELETE", "/bookings/{number}", Who.ADMINS)
async def cancel_booking(call: Call, number: Number) -> CancelledBooking:
    """Take a booking back, before it begins or while it holds."""
    return await call.pool.engine.cancel_booking(number, call.caller.name)

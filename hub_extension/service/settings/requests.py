"""Settings of the service for how much people may ask of it."""

from __future__ import annotations

from traitlets import Float, HasTraits, Integer

from springtide.hub_extension.api.routes import STREAMS

MIB = 1024 * 1024


class RequestTraits(HasTraits):
    """The settings, as a part of those of the service."""

    max_body = Integer(32 * MIB, min=64 * 1024, help="The largest request body, in bytes.").tag(config=True)
    submit_rate = Float(20.0, min=0.001, help="So many submissions a second one person may make for long.").tag(
        config=True
    )
    submit_burst = Integer(500, min=1, help="So many submissions one person may make at once.").tag(config=True)
    queue_cap = Integer(
        10_000, min=1, help="So many unfinished jobs, running ones too, the pool takes in all; more are refused."
    ).tag(config=True)
    queue_cap_per_user = Integer(
        1_000, min=1, help="So many unfinished jobs, running ones too, one person may have; more are refused."
    ).tag(config=True)
    streams_per_user = Integer(
        STREAMS, min=1, help="Event streams that one person may follow at a time: pages, and notebooks with cards."
    ).tag(config=True)

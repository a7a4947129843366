"""``springtide image-contents``."""

from __future__ import annotations

import json

import click

from springtide.scheduler.capture import packages


@click.command("image-contents")
@click.option("--json", "_as_json", is_flag=True, help="Print JSON, which it does anyway.")
def image_contents(*, _as_json: bool) -> None:
    """Print the Python, packages and modules of this environment, as c.Springtide.image_contents takes them.

    Run it inside an image: docker run --rm IMAGE springtide image-contents > image.json
    """
    click.echo(json.dumps(packages.contents(), indent=1))

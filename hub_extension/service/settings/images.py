"""Settings of the service for what images contain."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec
from traitlets import Dict, HasTraits, Unicode

from springtide.hub_extension.service.runtime import BAD_INPUT, StartError
from springtide.scheduler.engine.requests.acceptance import wrong_pattern
from springtide.scheduler.wire import ImageContents
from springtide.scheduler.wording import LONG_GIVEN, given


class ImageTraits(HasTraits):
    """The settings, as a part of those of the service."""

    image_contents = Dict(
        key_trait=Unicode(),
        value_trait=Unicode(),
        help="What images contain, so that packages that a job's code imports and its image lacks are named at "
        "submission: by patterns of images, of which the first that matches counts, files with what `springtide "
        "image-contents` prints in such an image.",
    ).tag(config=True)

    def declared_contents(self) -> Mapping[str, ImageContents]:
        """Return the declarations, read from their files. Raise `StartError` for one that is unusable."""
        wrong = wrong_pattern(tuple(self.image_contents))
        if wrong is not None:
            raise StartError(
                f"Springtide.image_contents: {given(wrong, LONG_GIVEN)} is no name or pattern of images.",
                BAD_INPUT,
            )
        return {pattern: _read(pattern, Path(file)) for pattern, file in self.image_contents.items()}


def _read(pattern: str, file: Path) -> ImageContents:
    try:
        return msgspec.json.decode(file.read_bytes(), type=ImageContents)
    except OSError as error:
        problem = error.strerror
    except msgspec.DecodeError as error:
        problem = f"{error}. Expected is what `springtide image-contents` prints"
    told = (
        f"Springtide.image_contents: {given(str(file), LONG_GIVEN)}, of {given(pattern, LONG_GIVEN)}, cannot "
        f"be read: {problem}."
    )
    raise StartError(told, BAD_INPUT)

"""Images that a model draws or edits, and the request for them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import attrs

from vibe_llms.exceptions import RequestError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonValue, is_integer
from vibe_llms.messages.call_results import CallResultSequence, join_losses, join_origins
from vibe_llms.messages.contents import ImageContent
from vibe_llms.messages.texts import ensure_text

_SIZE: Final = re.compile(r"([1-9]\d{0,4})x([1-9]\d{0,4})")


def _ensure_prompt(prompt: str) -> str:
    return ensure_text(prompt, "prompt")


def _ensure_images(images: ImageContent | Iterable[ImageContent]) -> tuple[ImageContent, ...]:
    members = (images,) if isinstance(images, ImageContent) else tuple(images)
    for place, image in enumerate(members):
        value: object = image
        if not isinstance(value, ImageContent):
            detail = f"Expected an ImageContent, not {type(value).__name__}."
            remedy = "Wrap the bytes: ImageContent(data=…)."
            raise RequestError(path=f"images[{place}]", detail=detail, remedy=remedy)
    return members


@frozen(kw_only=True)
class IllustrationRequest:
    """A request for images.

    Attributes:
        prompt: Description of the image, or of the change.
        images: Images to edit or to use as references; none to draw a new one.
        mask: Image whose transparent areas mark what to change in the first image.
        count: Number of images to return.
        size: Size, width first, such as ``1024x1536``; ``None`` for the model's default.
        quality: Quality of the images, such as ``high``; the values depend on the model.
        background: Background of the images, such as ``transparent``.
        file_format: Format of the images, such as ``png``, ``jpeg`` or ``webp``.
        options: Further fields of the vendor's request, sent unchanged.
        strict: Raise an error if the translation loses anything.

    Raises:
        RequestError: The prompt is blank, or a field is invalid.
    """

    prompt: str = attrs.field(converter=_ensure_prompt)
    images: tuple[ImageContent, ...] = attrs.field(default=(), converter=_ensure_images)
    mask: ImageContent | None = None
    count: int = 1
    size: str | None = None
    quality: str | None = None
    background: str | None = None
    file_format: str | None = None
    options: Mapping[str, JsonValue] = attrs.field(factory=dict, hash=False)
    strict: bool = False

    def __attrs_post_init__(self) -> None:
        if not (is_integer(self.count) and self.count > 0):
            detail = f"The number of images is {self.count!r}."
            raise RequestError(path="count", detail=detail, remedy="Give a positive integer.")
        if self.size is not None and not _SIZE.fullmatch(self.size):
            detail = f"Invalid size {self.size!r}."
            remedy = "Give the width and height in pixels, such as 1024x1536."
            raise RequestError(path="size", detail=detail, remedy=remedy)
        if self.mask is not None and not self.images:
            detail = "There is a mask, but no image to edit."
            raise RequestError(path="mask", detail=detail, remedy="Give the image, too.")

    @property
    def dimensions(self) -> tuple[int, int] | None:
        """Width and height in pixels; ``None`` for the model's default."""
        if self.size is None:
            return None
        width, _, height = self.size.partition("x")
        return int(width), int(height)


@frozen(kw_only=True)
class Illustration(CallResultSequence[ImageContent]):
    """Images that a model has drawn.

    Attributes:
        images: The images: their bytes, or the URL from which they can be downloaded.
    """

    images: tuple[ImageContent, ...]

    @property
    def _items(self) -> tuple[ImageContent, ...]:
        return self.images


def split_count(request: IllustrationRequest, max_images: int) -> list[IllustrationRequest]:
    """Split a request into requests for at most ``max_images`` images each."""
    whole, rest = divmod(request.count, max_images)
    counts = [max_images] * whole + ([rest] if rest else [])
    if len(counts) == 1:
        return [request]
    return [attrs.evolve(request, count=count) for count in counts]


def join_illustrations(parts: Sequence[Illustration]) -> Illustration:
    """Return the images of several requests as one value."""
    if len(parts) == 1:
        return parts[0]
    images = tuple(image for part in parts for image in part)
    return Illustration(images=images, origin=join_origins(parts), losses=join_losses(parts))

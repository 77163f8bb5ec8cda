"""The illustrator ``squares``: a square in a colour of the prompt, for tests and demonstrations."""

from __future__ import annotations

import struct
import zlib
from hashlib import blake2b
from typing import Final

from vibe_llms.dialects.calls import produce_origin
from vibe_llms.messages.canisters import Usage
from vibe_llms.messages.contents import ImageContent
from vibe_llms.messages.illustrations import Illustration, IllustrationRequest
from vibe_llms.messages.losses import Loss, LossKind, refuse_losses
from vibe_llms.models.descriptors import ModelDescriptor

SIZE: Final = (64, 64)
_MAX_PIXELS: Final = 4_000_000
_IGNORED: Final = ("mask", "quality", "background", "file_format")


class SquaresIllustrator:
    """An illustrator whose images have one colour, which depends on the prompt's hash."""

    max_inputs = 10
    max_bytes = 100_000_000

    def __init__(self, descriptor: ModelDescriptor) -> None:
        self._descriptor = descriptor

    @property
    def descriptor(self) -> ModelDescriptor:
        """The model's name and attributes."""
        return self._descriptor

    async def call(self, request: IllustrationRequest) -> Illustration:
        """Return PNG images of the wanted size. Raises TranslationLossError."""
        losses = [
            Loss(kind=LossKind.DROPPED, path=name, reason="the illustrator only draws squares")
            for name in _IGNORED
            if getattr(request, name) is not None
        ]
        if request.strict:
            refuse_losses(losses)
        width, height = request.dimensions or SIZE
        if width * height > _MAX_PIXELS:
            width, height = SIZE
            reason = f"the illustrator draws at most {_MAX_PIXELS:,} pixels"
            losses.append(Loss(kind=LossKind.COERCED, path="size", reason=reason))
        words = len(request.prompt.split())
        images = [
            ImageContent(mime_type="image/png", data=_draw(f"{request.prompt}{n}", width, height))
            for n in range(request.count)
        ]
        usage = Usage(input_tokens=words, output_tokens=request.count)
        origin = produce_origin(self._descriptor, "scripted", usage)
        return Illustration(images=tuple(images), origin=origin, losses=losses)


def _draw(text: str, width: int, height: int) -> bytes:
    """Return a PNG in one colour. Source: https://www.w3.org/TR/png-3."""
    colour = blake2b(text.encode(), digest_size=3).digest()
    rows = (b"\0" + colour * width) * height
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows, 1)), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )

"""An illustrator by its name: images drawn from a description, or edited.

``Illustrator`` is for asynchronous code; ``SyncIllustrator`` wraps it for synchronous code.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from vibe_llms.foundation.sync_faces import SyncFace, blocking, constructed_like
from vibe_llms.instruments.genera import CONCURRENCY, CallInstrument, call_all
from vibe_llms.messages.illustrations import (
    Illustration,
    IllustrationRequest,
    join_illustrations,
    split_count,
)
from vibe_llms.models.genera import Genus

if TYPE_CHECKING:
    from vibe_llms.foundation.json_types import JsonValue
    from vibe_llms.messages.contents import ImageContent
    from vibe_llms.providers.interfaces import CallModel


class Illustrator(CallInstrument):
    """A model that draws and edits images.

    Use it as an asynchronous context manager, or close it at the end.

    Args:
        address: Address of the model, such as ``openai:gpt-image-2``; empty for the configured
            illustrator.
        size: Size, width first, such as ``1024x1536``; ``None`` for the model's default.
        quality: Quality of the images, such as ``high``; the values depend on the model.
        background: Background of the images, such as ``transparent``.
        file_format: Format of the images, such as ``png``, ``jpeg`` or ``webp``.
        options: Further fields of the vendor's request, sent unchanged.
        settings: ``application``, ``strict``, ``concurrency``, ``listener`` and ``cache``; see
            :class:`.CallInstrument`.
    """

    genus = Genus.ILLUSTRATOR

    def __init__(
        self,
        address: str = "",
        *,
        size: str | None = None,
        quality: str | None = None,
        background: str | None = None,
        file_format: str | None = None,
        options: Mapping[str, JsonValue] | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(address, **settings)
        self.size = size
        self.quality = quality
        self.background = background
        self.file_format = file_format
        self.options = options or {}

    async def draw(
        self,
        prompt: str,
        images: ImageContent | Iterable[ImageContent] = (),
        *,
        mask: ImageContent | None = None,
        count: int = 1,
    ) -> Illustration:
        """Draw new images, or edit existing ones.

        If the vendor returns fewer images per request than ``count``, several requests are sent at
        once. If a request fails, all others are cancelled.

        Args:
            prompt: Description of the image, or of the change.
            images: Images to edit or to use as references; empty to draw a new image. Their bytes
                may be in the content store.
            mask: Image whose transparent areas mark the areas of the first image to change.
            count: Number of images to return.

        Raises:
            RequestError: The prompt is blank, or the vendor cannot do this.
            TranslationLossError: The translation loses something, and the illustrator is strict.
            ConfigurationError: The illustrator has no address.
            ConverseError: A request failed.
        """
        request = IllustrationRequest(
            prompt=prompt,
            images=images,
            mask=mask,
            count=count,
            size=self.size,
            quality=self.quality,
            background=self.background,
            file_format=self.file_format,
            options=self.options,
            strict=self.strict,
        )
        loaded = [await self.load(image) for image in request.images]
        mask = None if request.mask is None else await self.load(request.mask)
        request = attrs.evolve(request, images=loaded, mask=mask)
        return await draw_with(await self.access(), request, self.concurrency)


async def draw_with(
    model: CallModel[IllustrationRequest, Illustration],
    request: IllustrationRequest,
    concurrency: int = CONCURRENCY,
) -> Illustration:
    """Draw images with a provider's model. Raises ConverseError."""
    parts = split_count(request, model.max_inputs)
    return join_illustrations(await call_all(model, parts, concurrency))


class SyncIllustrator(SyncFace[Illustrator]):
    """An illustrator for synchronous code, with the arguments of :class:`Illustrator`.

    It also works inside a running event loop. Use it as a context manager, or close it at the end.
    """

    @constructed_like(Illustrator)
    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(Illustrator(*arguments, **settings))

    draw = blocking(Illustrator.draw)
    close = blocking(Illustrator.close)

"""Images of Gemini's models: ``generateContent`` with the response modality ``IMAGE``.

Source: types of the package google-genai 3.6.1 (ImageConfig, GenerateContentResponse), and
https://ai.google.dev/gemini-api/docs/image-generation, 2026-11-29.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from vibe_llms.dialects.calls import CallFormat, produce_origin
from vibe_llms.dialects.embeddings.results import decode
from vibe_llms.dialects.generate_content.calling.usage import normalize_usage
from vibe_llms.dialects.illustrations.sizes import find_nearest, reduce_size
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.payloads import decode_base64, encode_payload
from vibe_llms.exceptions import ProviderError, ProviderFault, Stage
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.contents import ImageContent
from vibe_llms.messages.illustrations import Illustration, IllustrationRequest
from vibe_llms.messages.losses import Translation
from vibe_llms.models.descriptors import ModelDescriptor

PROTOCOL: Final = "generate_content"
RATIOS: Final = ("1:1", "2:3", "3:2", "3:4", "4:3", "4:5", "5:4", "9:16", "16:9", "21:9")
_SIZES: Final = ((1536, "1K"), (3072, "2K"), (1_000_000, "4K"))
"""Word for the longest side, up to a number of pixels."""


class InlineData(msgspec.Struct, rename="camel"):
    """Data within a part."""

    data: str = ""
    mime_type: str = ""


class _Part(msgspec.Struct, rename="camel"):
    inline_data: InlineData | None = None
    thought: bool | None = None


class _Content(msgspec.Struct):
    parts: list[_Part] | None = None


class _Candidate(msgspec.Struct, rename="camel"):
    content: _Content | None = None
    finish_reason: str | None = None
    finish_message: str | None = None


class _Feedback(msgspec.Struct, rename="camel"):
    block_reason: str | None = None


class GeneratedContent(msgspec.Struct, rename="camel"):
    """Media in an answer, or in one event of a stream."""

    candidates: list[_Candidate] | None = None
    prompt_feedback: _Feedback | None = None
    usage_metadata: dict[str, Any] | None = None
    model_version: str | None = None
    response_id: str | None = None

    def list_data(self) -> list[InlineData]:
        """Return the data of the answer, without those of thoughts."""
        contents = [each.content for each in self.candidates or () if each.content is not None]
        parts = [part for content in contents for part in content.parts or ()]
        return [
            part.inline_data for part in parts if part.inline_data is not None and not part.thought
        ]

    def find_reason(self) -> str:
        """Return the vendor's reason for an answer without data; empty for none."""
        if self.prompt_feedback is not None and self.prompt_feedback.block_reason:
            return self.prompt_feedback.block_reason
        reasons = [each.finish_message or each.finish_reason for each in self.candidates or ()]
        return next((reason for reason in reasons if reason and reason != "STOP"), "")


def explain_missing_media(provider: str, reason: str, what: str) -> Exception:
    """Return the error for an answer without media.

    Args:
        reason: The vendor's reason; empty for none.
        what: What is missing, such as ``images``.
    """
    if not reason:
        return ValueError(f"it has no {what}")
    return ProviderError(
        provider=provider,
        fault=ProviderFault.BLOCKED,
        detail=f"The answer has no {what}: {reason}",
        remedy="Change the request.",
        stage=Stage.PROVIDER,
    )


def produce_call_format(path: str) -> CallFormat[IllustrationRequest, Illustration]:
    """Return the call format for one model.

    Args:
        path: The path of its method ``generateContent``.
    """
    return CallFormat(path=path, max_inputs=1, write=nativize, read=read)


def nativize(request: IllustrationRequest, model: ModelDescriptor) -> Translation[JsonObject]:
    """Write the body of a request for one image."""
    ledger = Ledger(protocol=PROTOCOL, provider=model.provider)
    parts: list[Any] = [
        {"inlineData": _write_image(image, f"images[{place}]")}
        for place, image in enumerate(request.images)
    ]
    parts.append({"text": request.prompt})
    configuration: dict[str, Any] = {"responseModalities": ["IMAGE"]}
    if shape := _write_shape(request, ledger):
        configuration["imageConfig"] = shape
    for name in ("mask", "quality", "background", "file_format"):
        if getattr(request, name) is not None:
            ledger.drop(name, "Gemini has no field for it; describe it in the prompt")
    configuration |= request.options
    contents = [{"role": "user", "parts": parts}]
    body: JsonObject = {"contents": contents, "generationConfig": configuration}
    return Translation(body, ledger.losses)


def _write_image(image: ImageContent, path: str) -> dict[str, str]:
    # A vague type, such as image/*, cannot be sent.
    kind = "image/png" if image.is_vague else image.mime_type
    return {"mimeType": kind, "data": encode_payload(image, path)}


def _write_shape(request: IllustrationRequest, ledger: Ledger) -> dict[str, str]:
    if request.dimensions is None:
        return {}
    width, height = request.dimensions
    ratio = find_nearest(width, height, RATIOS)
    size = next(word for pixels, word in _SIZES if max(width, height) <= pixels)
    if ratio == reduce_size(width, height):
        ledger.coerce("size", f"sent as the proportions {ratio} and the size {size}")
    else:
        ledger.coerce("size", f"sent as the nearest proportions, {ratio}, and the size {size}")
    # Models of generation 2.5 have one size, and refuse the field.
    return {"aspectRatio": ratio} if size == "1K" else {"aspectRatio": ratio, "imageSize": size}


def read(answer: bytes, request: IllustrationRequest, model: ModelDescriptor) -> Illustration:
    """Read an answer. Raises ValueError or ProviderError."""
    parsed: GeneratedContent = decode(answer, GeneratedContent)
    images = tuple(_read_image(each) for each in parsed.list_data())
    if not images:
        raise explain_missing_media(model.provider, parsed.find_reason(), "images")
    usage = None if parsed.usage_metadata is None else normalize_usage(parsed.usage_metadata)
    origin = produce_origin(
        model, PROTOCOL, usage, reported_model=parsed.model_version, response_id=parsed.response_id
    )
    return Illustration(images=images, origin=origin)


def _read_image(inline: InlineData) -> ImageContent:
    data = decode_base64(inline.data)
    if not data:
        raise ValueError("an image is not Base64")
    return ImageContent(mime_type=inline.mime_type, data=data)

"""Images in OpenAI's format: ``/images/generations`` and ``/images/edits``.

Source: types of the package openai 3.57.0 (image_generate_params.py, image_edit_params.py,
images_response.py); other services as named in ``kinds.toml``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from vibe_llms.dialects.call_quirks import IllustrationQuirks
from vibe_llms.dialects.calls import CallFormat, NativeCall, NativeTranslation, produce_origin
from vibe_llms.dialects.embeddings.results import decode
from vibe_llms.dialects.illustrations.sizes import reduce_size
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.openai_usage import normalize_openai_usage
from vibe_llms.dialects.payloads import compose_url, read_bytes, read_payload
from vibe_llms.exceptions import RequestError
from vibe_llms.foundation.forms import FormField, FormFile, encode_form
from vibe_llms.foundation.json_types import JsonValue
from vibe_llms.messages.canisters import Usage
from vibe_llms.messages.contents import ImageContent, Native
from vibe_llms.messages.illustrations import Illustration, IllustrationRequest
from vibe_llms.messages.losses import Translation
from vibe_llms.models.descriptors import ModelDescriptor

PROTOCOL: Final = "images"
STANDARD: Final = IllustrationQuirks()
"""OpenAI itself."""
_NO_FIELD: Final = "the service has no field for it"


class _Image(msgspec.Struct):
    b64_json: str | None = None
    url: str | None = None
    revised_prompt: str | None = None


class _Answer(msgspec.Struct):
    data: list[_Image] | None = None
    images: list[_Image] | None = None
    """SiliconFlow's name of the field."""
    output_format: str | None = None
    model: str | None = None
    usage: dict[str, Any] | None = None


def produce_call_format(
    quirks: IllustrationQuirks,
) -> CallFormat[IllustrationRequest, Illustration]:
    """Return the call format of a service."""

    def write(request: IllustrationRequest, model: ModelDescriptor) -> NativeTranslation:
        return nativize(request, model, quirks)

    return CallFormat(
        path=quirks.path,
        protocol=PROTOCOL if quirks == STANDARD else "",
        max_inputs=quirks.max_images,
        write=write,
        read=read,
    )


def nativize(
    request: IllustrationRequest, model: ModelDescriptor, quirks: IllustrationQuirks
) -> Translation[NativeCall]:
    """Write a request; what the service does not take is a loss."""
    ledger = Ledger(protocol=PROTOCOL, provider=model.provider)
    body: dict[str, Any] = {"model": model.name, "prompt": request.prompt}
    if request.count != 1:
        body["n"] = request.count
    _write_size(request, quirks, body, ledger)
    for name, field in (
        ("quality", quirks.quality_field),
        ("background", quirks.background_field),
        ("file_format", quirks.format_field),
    ):
        value = getattr(request, name)
        if value is not None and field:
            body[field] = value
        elif value is not None:
            ledger.drop(name, _NO_FIELD)
    if quirks.base64_word:
        body["response_format"] = quirks.base64_word
    body |= request.options
    native = _write_edit(request, quirks, body) if request.images else NativeCall(body=body)
    return Translation(native, ledger.losses)


def _write_size(
    request: IllustrationRequest, quirks: IllustrationQuirks, body: dict[str, Any], ledger: Ledger
) -> None:
    if request.size is None or request.dimensions is None:
        return
    width, height = request.dimensions
    if quirks.size_form == "size":
        body["size"] = request.size
    elif quirks.size_form == "pixels":
        body |= {"width": width, "height": height}
    else:
        body["aspect_ratio"] = reduce_size(width, height)
        ledger.coerce("size", "the service takes the proportions of an image, not its size")


def _write_edit(
    request: IllustrationRequest, quirks: IllustrationQuirks, body: dict[str, Any]
) -> NativeCall:
    """Write a request with images. Raises RequestError if the service cannot edit."""
    if quirks.edits == "form":
        fields = [*_flatten(body), *_list_files(request)]
        return NativeCall(body=encode_form(fields), path=quirks.edits_path)
    if quirks.edits == "json":
        sources = [{"url": compose_url(each, "images")} for each in request.images]
        images: dict[str, Any] = {"images": sources} if len(sources) > 1 else {"image": sources[0]}
        mask = request.mask
        masks = {} if mask is None else {"mask": {"url": compose_url(mask, "mask")}}
        return NativeCall(body={**body, **images, **masks}, path=quirks.edits_path)
    raise RequestError(
        path="images",
        detail="This service draws new images, but does not edit any.",
        remedy="Leave the images out, or use another model.",
    )


def _flatten(body: Mapping[str, Any]) -> Iterator[FormField]:
    for name, value in body.items():
        if isinstance(value, list | tuple):
            yield from ((f"{name}[]", _write_value(each)) for each in value)
        elif isinstance(value, Mapping):
            yield from ((f"{name}[{key}]", _write_value(each)) for key, each in value.items())
        else:
            yield name, _write_value(value)


def _write_value(value: JsonValue) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _list_files(request: IllustrationRequest) -> Iterator[FormField]:
    name = "image" if len(request.images) == 1 else "image[]"
    for place, image in enumerate(request.images):
        yield name, _produce_file(image, f"images[{place}]", f"image-{place + 1}")
    if request.mask is not None:
        yield "mask", _produce_file(request.mask, "mask", "mask")


def _produce_file(image: ImageContent, path: str, stem: str) -> FormFile:
    # A vague type, such as image/*, cannot be sent.
    kind = "image/png" if image.is_vague else image.mime_type
    return FormFile(read_bytes(image, path), f"{stem}.{kind.partition('/')[2]}", kind)


def read(answer: bytes, request: IllustrationRequest, model: ModelDescriptor) -> Illustration:
    """Read an answer. Raises ValueError."""
    parsed: _Answer = decode(answer, _Answer)
    rows = parsed.data if parsed.data is not None else parsed.images
    if not rows:
        raise ValueError("it has no images")
    kind = f"image/{parsed.output_format}" if parsed.output_format else ""
    images = tuple(_read_image(row, kind) for row in rows)
    origin = produce_origin(model, PROTOCOL, _read_usage(parsed.usage), reported_model=parsed.model)
    return Illustration(images=images, origin=origin)


def _read_image(row: _Image, kind: str) -> ImageContent:
    native = None
    if row.revised_prompt:
        data = msgspec.json.encode({"revised_prompt": row.revised_prompt}).decode()
        native = Native(protocol=PROTOCOL, data=data)
    if row.b64_json:
        payload = read_payload(row.b64_json.rpartition("base64,")[2], kind or "image/png")
        if "data" not in payload:
            raise ValueError("an image is not Base64")
        return ImageContent(mime_type=kind, data=payload["data"], native=native)
    if not row.url:
        raise ValueError("an image has neither data nor a URL")
    return ImageContent(mime_type=kind, url=row.url, native=native)


def _read_usage(usage: Mapping[str, Any] | None) -> Usage | None:
    if not usage or "input_tokens" not in usage:
        return None
    return normalize_openai_usage(usage, input_name="input_tokens", output_name="output_tokens")

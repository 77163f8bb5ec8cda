"""Images of OpenAI: ``/images/generations`` and ``/images/edits``."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from typing import Any

from vibe_llms.testing.simulator.behaviour import produce_png
from vibe_llms.testing.simulator.credentials import check_model
from vibe_llms.testing.simulator.forms import UploadedFile
from vibe_llms.testing.simulator.prompts import count_tokens, measure_picture
from vibe_llms.testing.simulator.protocols import SimulatedFrame, SimulatedRequest
from vibe_llms.testing.simulator.refusals import require

_SIZE = re.compile(r"(\d+)x(\d+)")
_QUALITIES = (None, "auto", "low", "medium", "high", "xhigh", "max")
_FORMATS = (None, "png", "jpeg", "webp")
_IMAGE_TOKENS = 272


def _is_true(value: Any) -> bool:
    return value in (True, "true")


def _read_size(body: Mapping[str, Any]) -> tuple[int, int]:
    if "width" in body:  # Together's
        return int(body["width"]), int(body["height"])
    size = body.get("size") or "auto"
    if size == "auto":
        return 64, 64
    found = _SIZE.fullmatch(str(size))
    require(found, f"Invalid size {size!r}.", param="size")
    assert found is not None
    return int(found[1]), int(found[2])


def _check(body: Mapping[str, Any]) -> int:
    """Check a request; return the number of images."""
    model = str(body.get("model") or "")
    check_model(model)
    require(body.get("prompt"), "Missing required parameter: 'prompt'.", param="prompt")
    count = int(body.get("n") or 1)
    require(1 <= count <= 10, "n must be between 1 and 10.", param="n")
    require(body.get("quality") in _QUALITIES, "Invalid quality.", param="quality")
    require(body.get("output_format") in _FORMATS, "Invalid format.", param="output_format")
    if model.startswith("gpt-image"):
        unknown = "Unknown parameter: 'response_format'."
        require("response_format" not in body, unknown, param="response_format")
    return count


def draw(request: SimulatedRequest) -> Mapping[str, Any] | Iterator[SimulatedFrame]:
    """Answer a request for new images."""
    body = request.body
    count = _check(body)
    return _answer(body, count, 0, "image_generation", request.now)


def edit(request: SimulatedRequest) -> Mapping[str, Any] | Iterator[SimulatedFrame]:
    """Answer a request for edits: OpenAI's of files, or xAI's of URLs."""
    body = request.body
    count = _check(body)
    given = body.get("images") or body.get("image")
    images = given if isinstance(given, list) else [given]
    for image in images:
        require(image, "Missing required parameter: 'image'.", param="image")
        if isinstance(image, UploadedFile):
            require(image.media_type.startswith("image/"), "Unsupported file.", param="image")
            require(measure_picture(image.data), "Invalid image file.", param="image")
        else:
            url = image.get("url") if isinstance(image, Mapping) else None
            require(url, "image.url is required", param="image")
    mask = body.get("mask")
    require(mask is None or isinstance(mask, UploadedFile), "mask must be a file.", param="mask")
    return _answer(body, count, len(images), "image_edit", request.now)


def _answer(
    body: Mapping[str, Any], count: int, sources: int, kind: str, now: int
) -> Mapping[str, Any] | Iterator[SimulatedFrame]:
    width, height = _read_size(body)
    data = base64.b64encode(produce_png(width, height)).decode()
    words, pictures = count_tokens(str(body["prompt"])), 100 * sources
    usage = {
        "input_tokens": words + pictures,
        "input_tokens_details": {"text_tokens": words, "image_tokens": pictures},
        "output_tokens": _IMAGE_TOKENS * count,
        "total_tokens": words + pictures + _IMAGE_TOKENS * count,
    }
    described = {
        "background": "opaque",
        "output_format": body.get("output_format") or "png",
        "quality": "low",
        "size": f"{width}x{height}",
    }
    if _is_true(body.get("stream")):
        return _stream(body, data, kind, {**described, "created_at": now}, usage)
    if body.get("response_format") == "url":
        row = {"url": f"https://images.example/{width}x{height}.png"}
    else:
        row = {"b64_json": data}
    return {"created": now, **described, "data": [row] * count, "usage": usage}


def _stream(
    body: Mapping[str, Any],
    data: str,
    kind: str,
    described: Mapping[str, Any],
    usage: Mapping[str, Any],
) -> Iterator[SimulatedFrame]:
    for index in range(int(body.get("partial_images") or 0)):
        name = f"{kind}.partial_image"
        event = {"type": name, "b64_json": data, "partial_image_index": index, **described}
        yield SimulatedFrame(event, name)
    name = f"{kind}.completed"
    yield SimulatedFrame({"type": name, "b64_json": data, **described, "usage": usage}, name)

"""Detection of a client's media that cannot be decoded, which every vendor rejects.

A dialect keeps undecodable data unchanged, so that the vendor of the dialect can judge the data.
For another vendor they could only be dropped, and an answer about an image that was never sent is
worse than an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from vibe_llms.dialects.extras import read_native
from vibe_llms.dialects.payloads import decode_base64
from vibe_llms.exceptions import RequestError
from vibe_llms.messages.canisters import AnyCanister
from vibe_llms.messages.contents import (
    MEDIA_CLASSES,
    ImageContent,
    NativeContent,
    TextualContent,
)
from vibe_llms.messages.field_types import evolve_unchecked
from vibe_llms.messages.losses import Loss, LossKind, Translation
from vibe_llms.messages.requests import Request
from vibe_llms.messages.signatures import recognize

_BASE64_PATHS: Final = (
    ("source", "data"),
    ("inlineData", "data"),
    ("inline_data", "data"),
    ("input_audio", "data"),
    ("file_data",),
)
"""Paths of Base64 in blocks; only used for blocks that could not be decoded."""
_COMMON_IMAGE_TYPES: Final = frozenset({"image/gif", "image/jpeg", "image/png", "image/webp"})
"""The types that all vendors accept. Other types cannot be told from the bytes with certainty."""

_SHOWN_CHARACTERS: Final = 24
_DATA_URL: Final = re.compile("data:[^,]*;base64,")


def find_media(canisters: Iterable[AnyCanister]) -> list[tuple[int, AnyCanister]]:
    """Return the canisters that may have media (not only plain texts), with their positions."""
    found: list[tuple[int, AnyCanister]] = []
    for index, canister in enumerate(canisters):
        if canister.native is None:
            for content in canister.content:
                if content.__class__ is not TextualContent:
                    break
            else:
                continue
        found.append((index, canister))
    return found


def refuse_broken_media(media: Iterable[tuple[int, AnyCanister]]) -> None:
    """Raise RequestError if an image, audio or document is not valid Base64.

    Args:
        media: The canisters that may have media, with their positions.
    """
    for index, canister in media:
        for path, text in _survey(canister, f"canisters[{index}]"):
            if decode_base64(text) is None:
                shown = text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"
                raise RequestError(
                    path=path,
                    detail=f"The data are not valid Base64: {shown!r}.",
                    remedy="Encode the bytes of the image, audio or document as Base64.",
                )


def correct_media_types(
    request: Request, media: Sequence[tuple[int, AnyCanister]]
) -> Translation[Request]:
    """Return a request with the types of images corrected by their first bytes.

    A client may label a JPEG as ``image/png``. Its own vendor looks at the bytes; others reject it.

    Args:
        media: The request's canisters that may have media, with their positions.
    """
    if not media:
        return Translation(request)
    losses: list[Loss] = []
    canisters = list(request.canisters)
    for index, canister in media:
        canisters[index] = _correct(canister, f"canisters[{index}]", losses)
    if not losses:
        return Translation(request)
    return Translation(evolve_unchecked(request, canisters=tuple(canisters)), losses)


def _correct(canister: AnyCanister, path: str, losses: list[Loss]) -> AnyCanister:
    contents: list[Any] = list(canister.content)
    count = len(losses)
    for index, content in enumerate(contents):
        if not isinstance(content, ImageContent) or content.data is None:
            continue
        found = recognize(content.data, "image/")
        if (
            found is None
            or content.mime_type not in _COMMON_IMAGE_TYPES
            or found == content.mime_type
        ):
            continue
        contents[index] = attrs.evolve(content, mime_type=found)
        reason = (
            f"it is labeled {content.mime_type}, but its bytes are {found}; it is sent as {found}"
        )
        where = f"{path}.content[{index}].mime_type"
        losses.append(Loss(kind=LossKind.COERCED, path=where, reason=reason))
    return canister if len(losses) == count else attrs.evolve(canister, content=contents)


def _survey(canister: AnyCanister, path: str) -> Iterator[tuple[str, str]]:
    """Yield the undecoded Base64 of a canister, with its path."""
    for place, content in enumerate(canister.content):
        where = f"{path}.content[{place}]"
        if isinstance(content, MEDIA_CLASSES):
            if content.url is not None and (found := _DATA_URL.match(content.url)):
                yield where, content.url[found.end() :]
        elif isinstance(content, NativeContent):
            yield from (
                (where, text) for text in _find_payloads(read_native(content.native, where))
            )
    if canister.native is not None and '"images"' in canister.native.data:
        images = read_native(canister.native, path).get("images")
        for place, text in enumerate(images if isinstance(images, list) else ()):
            if isinstance(text, str):
                yield f"{path}.images[{place}]", text


def _find_payloads(block: Mapping[str, Any]) -> Iterator[str]:
    for *names, last in _BASE64_PATHS:
        value: Any = block
        for name in names:
            value = value.get(name) if isinstance(value, Mapping) else None
        if not isinstance(value, Mapping) or value.get("type", "base64") in ("text", "url", "file"):
            continue
        if isinstance(text := value.get(last), str):
            yield text.partition(",")[2] if _DATA_URL.match(text) else text

"""Join the texts of contents into one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from vibe_llms.exceptions import RequestError
from vibe_llms.foundation.json_types import is_encodable
from vibe_llms.messages.contents import AnyContent, CacheHint, NativeContent, TextualContent

BOUNDARY: Final = "\n\n"
"""Separator of texts that are joined."""


def ensure_text(text: str, path: str, remedy: str = "Give a text.") -> str:
    """Return a text. Raises RequestError if it is blank, or cannot be encoded."""
    value: object = text
    if not isinstance(value, str):
        detail = f"Expected a text, not {type(value).__name__}."
        raise RequestError(path=path, detail=detail, remedy="Give a string.")
    if not is_encodable(text):
        detail = "The text has a lone surrogate, which no encoding can write."
        raise RequestError(path=path, detail=detail, remedy="Remove it.")
    if not text.strip():
        raise RequestError(path=path, detail="The text is empty or blank.", remedy=remedy)
    return text


def join_texts(contents: Iterable[AnyContent]) -> str:
    """Join texts, separated by an empty line."""
    texts = (item.text for item in contents if isinstance(item, TextualContent))
    return BOUNDARY.join(filter(None, texts))


def join_answer(contents: Iterable[AnyContent]) -> str:
    """Join texts of a model directly; an empty line separates those around reasoning or media."""
    pieces: list[str] = []
    is_separated = False
    for item in contents:
        if isinstance(item, TextualContent) and item.text:
            pieces += [BOUNDARY] if is_separated and pieces else []
            pieces.append(item.text)
            is_separated = False
        else:
            is_separated = is_separated or separates_texts(item)
    return "".join(pieces)


def separates_texts(content: AnyContent) -> bool:
    """Return whether a content separates the texts before and after it."""
    return not isinstance(content, (TextualContent, NativeContent, CacheHint))

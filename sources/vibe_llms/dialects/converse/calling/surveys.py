"""Token counts and models of the other side."""

from __future__ import annotations

from typing import Any, TypeVar

from vibe_llms.dialects.converse.versions import ensure_answered
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonValue
from vibe_llms.messages.codec.decoding import read_tree
from vibe_llms.models.tokens import TokenCount

_T = TypeVar("_T")


@frozen(kw_only=True)
class ToldValue:
    """An attribute of a model, and the other side's source of it.

    Attributes:
        key: Such as ``context_window_tokens`` or ``temperature.maximum``.
        control: The control whose definition it is part of; empty for a fact.
        value: Plain data.
        removed: Whether a layer removed it.
        layer: The layer that sets it, such as ``family`` or ``user``.
        name: The part of the layer.
        source: The source of the value.
        date: When the source was read.
    """

    key: str
    control: str = ""
    value: Any = None
    removed: bool = False
    layer: str = ""
    name: str = ""
    source: str = ""
    date: str = ""


@frozen(kw_only=True)
class ToldModel:
    """A model of the other side.

    Attributes:
        address: Its address there, such as ``anthropic:claude-opus-5``.
        model: The model behind it; the same unless the address is an alias.
        values: Its attributes there.
    """

    address: str
    model: str = ""
    values: tuple[ToldValue, ...] = ()


@frozen(kw_only=True)
class _Models:
    version: int
    models: tuple[ToldModel, ...]


@frozen(kw_only=True)
class _Count:
    version: int
    tokens: int
    error_tokens: int = 0


def normalize_count(told: JsonValue, provider: str) -> TokenCount:
    """Decode a token count.

    Args:
        provider: The provider that reported it, for errors.

    Raises:
        ConverseError: It is invalid, or has another version.
    """
    count = _read(told, _Count, provider)
    return TokenCount(tokens=count.tokens, error_tokens=count.error_tokens)


def normalize_models(told: JsonValue, provider: str) -> tuple[ToldModel, ...]:
    """Decode a list of models; see :func:`normalize_count`."""
    return _read(told, _Models, provider).models


def _read(told: JsonValue, kind: type[_T], provider: str) -> _T:
    ensure_answered(told.get("version") if isinstance(told, dict) else None, provider)
    value: _T = read_tree(told, kind)
    return value

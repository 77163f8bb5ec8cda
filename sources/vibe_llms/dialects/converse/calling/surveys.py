"""What the other side knows: how many tokens there are, and its models."""

from __future__ import annotations

from typing import Any, TypeVar

from vibe_llms.dialects.converse.versions import ensure_answered
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonValue
from vibe_llms.messages.codec.reading import read_tree
from vibe_llms.models.tokens import TokenCount

_T = TypeVar("_T")


@frozen(kw_only=True)
class ToldValue:
    """A fact about a model, and where the other side has it from.

    Attributes:
        key: Such as ``context_window_tokens`` or ``temperature.maximum``.
        control: The control that it helps to define; empty where it is a fact.
        value: Plain data.
        removed: Whether it says that there is no such thing.
        layer: Who set it there, such as ``family`` or ``user``.
        name: Which one of the layer.
        source: What that was read in.
        date: When.
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
        address: By which it is asked there, such as ``anthropic:claude-opus-5``.
        model: Which model that is there; the same but for an alias.
        values: What is known of it there.
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
    """Reads a count of tokens.

    Args:
        provider: That told it, for errors.

    Raises:
        ConverseError: It is none, or in another version.
    """
    count = _read(told, _Count, provider)
    return TokenCount(tokens=count.tokens, error_tokens=count.error_tokens)


def normalize_models(told: JsonValue, provider: str) -> tuple[ToldModel, ...]:
    """Reads a list of models; see :func:`normalize_count`."""
    return _read(told, _Models, provider).models


def _read(told: JsonValue, kind: type[_T], provider: str) -> _T:
    ensure_answered(told.get("version") if isinstance(told, dict) else None, provider)
    value: _T = read_tree(told, kind)
    return value

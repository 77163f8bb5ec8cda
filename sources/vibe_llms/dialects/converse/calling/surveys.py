"""Token counts and models of the other side."""

from __future__ import annotations

from typing import Any, TypeVar

from vibe_llms.dialects.converse.versions import ensure_answer_version
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonValue
from vibe_llms.messages.codec.decoding import read_tree
from vibe_llms.models.tokens import TokenCount

_T = TypeVar("_T")


@frozen(kw_only=True)
class ReportedValue:
    """An attribute of a model, and the other side's source of it.

    Attributes:
        key: Name of the attribute, such as ``context_window_tokens`` or ``temperature.maximum``.
        control: The control whose definition it is part of; empty for a fact.
        value: Plain data.
        removed: Whether a layer of the configuration removed it.
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
class ReportedModel:
    """A model of the other side.

    Attributes:
        address: Address of the model there, such as ``anthropic:claude-opus-5``.
        model: Address of the model. It differs if the address is an alias.
        values: Attributes of the model there.
    """

    address: str
    model: str = ""
    values: tuple[ReportedValue, ...] = ()


@frozen(kw_only=True)
class _Models:
    version: int
    models: tuple[ReportedModel, ...]


@frozen(kw_only=True)
class _Count:
    version: int
    tokens: int
    error_tokens: int = 0


def normalize_count(data: JsonValue, provider: str) -> TokenCount:
    """Decode a token count.

    Args:
        provider: The provider that reported it, for errors.

    Raises:
        ConverseError: The answer is invalid, or has another version.
    """
    count = _read(data, _Count, provider)
    return TokenCount(tokens=count.tokens, error_tokens=count.error_tokens)


def normalize_models(data: JsonValue, provider: str) -> tuple[ReportedModel, ...]:
    """Decode a list of models; see :func:`normalize_count`."""
    return _read(data, _Models, provider).models


def _read(data: JsonValue, kind: type[_T], provider: str) -> _T:
    ensure_answer_version(data.get("version") if isinstance(data, dict) else None, provider)
    value: _T = read_tree(data, kind)
    return value

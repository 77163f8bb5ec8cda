"""Errors as JSON, to send them to another process, which gets the same class, stage and facts.

Only the facts that an error class declares are written, not the ``args`` of the exception, its
traceback or other attributes. So data that must not leave the process must not be declared as
facts.
"""

from __future__ import annotations

import contextlib
import typing
from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from vibe_llms.exceptions import CodecError, ConverseError, ForeignError, Stage
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.error_facts import access_facts
from vibe_llms.messages.codec.canonical import canonicalize, encode_document
from vibe_llms.messages.codec.converter import produce_converter
from vibe_llms.messages.codec.decoding import read_json, read_tree
from vibe_llms.messages.codec.mirrors import Mirror, register_mirror

CAUSES_LIMIT = 16
"""Maximum length of the chain of causes, which may be circular."""

_SPECIAL_NUMBERS = ("inf", "-inf", "nan")
"""Floats that JSON cannot represent, as the texts that are written instead."""


@frozen(kw_only=True)
class _Cause:
    error: str
    type: str
    message: str


@frozen(kw_only=True)
class _Envelope:
    error: str
    stage: Stage
    message: str
    facts: Mapping[str, Any]
    causes: tuple[_Cause, ...] = ()


def encode_error(error: BaseException) -> bytes:
    """Return the error as one JSON document.

    An error of a foreign class becomes a :class:`ForeignError` with its type and text. Encoding
    does not fail: lone surrogates, as paths may contain, are escaped; facts that JSON cannot
    represent become text, and infinite numbers and NaN are restored from it.
    """
    ours = error if isinstance(error, ConverseError) else _convert_foreign(error)
    facts = {
        name: _unstructure_fact(value)
        for name, value in access_facts(ours).items()
        if name != "stage"
    }
    document = {
        "error": _find_code(type(ours)),
        "stage": str(ours.stage),
        "message": _compose_text(ours),
        "facts": facts,
        "causes": [attrs.asdict(_describe(cause)) for cause in _walk_causes(error)],
    }
    return encode_document(_escape(document))


def decode_error(data: bytes | str) -> ConverseError:
    """Decode an error. Its causes become :class:`ForeignError`, chained as before.

    If nothing imported here declares its class, or the facts do not fit the class as declared
    here, it becomes a :class:`ForeignError` with its class name and text.

    Raises:
        CodecError: It is not an error in this format.
    """
    return _produce_error(read_json(data, _Envelope))


def read_error(tree: object) -> ConverseError:
    """Decode an error from plain data, such as parsed JSON; see :func:`decode_error`."""
    return _produce_error(read_tree(tree, _Envelope))


def _is_error(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, ConverseError)


register_mirror(_is_error, Mirror(dict[str, Any], read_error))


def _produce_error(envelope: _Envelope) -> ConverseError:
    error = _rebuild(envelope)
    outer: BaseException = error
    for cause in envelope.causes:
        outer.__cause__ = ForeignError(
            word=cause.error, type=cause.type, detail=cause.message, stage=error.stage
        )
        outer = outer.__cause__
    return error


def survey_error_classes() -> dict[str, type[ConverseError]]:
    """Return the error classes by name, including those of plugins."""
    classes: dict[str, type[ConverseError]] = {}
    pending: list[type[ConverseError]] = [ConverseError]
    while pending:
        cls = pending.pop()
        classes.setdefault(_find_code(cls), cls)
        pending.extend(cls.__subclasses__())
    return classes


def _find_code(cls: type[ConverseError]) -> str:
    """Return the code that names an error class in JSON; without one, its module and name."""
    code = cls.__dict__.get("WORD")
    return code if isinstance(code, str) else f"{cls.__module__}.{cls.__qualname__}"


def _rebuild(envelope: _Envelope) -> ConverseError:
    stage = envelope.stage
    cls = survey_error_classes().get(envelope.error)
    if cls is not None:
        # A plugin's constructor may do anything, and the facts come from outside.
        with contextlib.suppress(Exception):
            hints = typing.get_type_hints(cls)
            facts = {name: _read_fact(each, hints[name]) for name, each in envelope.facts.items()}
            return cls(**facts, stage=stage)
    return ForeignError(word=envelope.error, detail=envelope.message, stage=stage)


def _read_fact(value: Any, hint: Any) -> Any:
    if value in _SPECIAL_NUMBERS and float in (hint, *typing.get_args(hint)):
        return float(value)
    return read_tree(value, hint)


def _unstructure_fact(value: Any) -> Any:
    """Return a fact as plain data, or as text if JSON cannot represent it."""
    try:
        return canonicalize(produce_converter().unstructure(value))
    except (CodecError, RecursionError):
        return _compose_text(value)


def _compose_text(value: object) -> str:
    try:
        return str(value)
    except Exception:  # encoding must not fail, whatever a foreign __str__ raises
        return type(value).__name__


def _walk_causes(error: BaseException) -> Iterator[BaseException]:
    cause = error.__cause__
    for _ in range(CAUSES_LIMIT):
        if cause is None:
            return
        yield cause
        cause = cause.__cause__


def _convert_foreign(error: BaseException) -> ForeignError:
    return ForeignError(type=type(error).__name__, detail=_compose_text(error))


def _describe(error: BaseException) -> _Cause:
    if not isinstance(error, ConverseError):
        error = _convert_foreign(error)
    if isinstance(error, ForeignError):
        return _Cause(error=error.word, type=error.type, message=error.detail)
    return _Cause(
        error=_find_code(type(error)), type=type(error).__name__, message=_compose_text(error)
    )


def _escape(value: Any) -> Any:
    """Escape the lone surrogates in all texts of plain data."""
    match value:
        case str():
            return value.encode("utf-8", "backslashreplace").decode("utf-8")
        case dict():
            return {_escape(key): _escape(each) for key, each in value.items()}
        case list():
            return [_escape(each) for each in value]
    return value

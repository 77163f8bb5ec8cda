"""Errors that cross to another process, and arrive as the same class, stage and facts.

Only what an error class declares as its facts is written: no arguments, no frames, no
attributes that somebody hung on it. So what may not leave must not be made a fact.
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
from vibe_llms.messages.codec.mirrors import Mirror, register_mirror
from vibe_llms.messages.codec.reading import read_json, read_tree

CAUSES_LIMIT = 16
"""How far the chain of causes is followed; it may even be a ring."""

_BEYOND_JSON = ("inf", "-inf", "nan")
"""Numbers which JSON has no words for, as they are written."""


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
    """Returns the error as one JSON document.

    An error that is not one of ours becomes a :class:`ForeignError`: its type and its text.
    An error can always be told: half surrogates, as paths may hold them, are escaped; a fact
    which JSON cannot say is told as text, and numbers beyond it read back from that.
    """
    ours = error if isinstance(error, ConverseError) else _portray(error)
    facts = {
        name: _plainify(value) for name, value in access_facts(ours).items() if name != "stage"
    }
    document = {
        "error": _word_of(type(ours)),
        "stage": str(ours.stage),
        "message": _tell(ours),
        "facts": facts,
        "causes": [attrs.asdict(_describe(cause)) for cause in _walk_causes(error)],
    }
    return encode_document(_escape(document))


def decode_error(data: bytes | str) -> ConverseError:
    """Reads an error. Its causes come back as :class:`ForeignError`, chained as they were.

    One of a class which nothing imported here declares, or whose facts do not fit the class as
    it is here, comes as a :class:`ForeignError` with its word and its text.

    Raises:
        CodecError: It is no error in this form.
    """
    return _produce_error(read_json(data, _Envelope))


def read_error(tree: object) -> ConverseError:
    """Reads an error from plain data, such as JSON became; otherwise like :func:`decode_error`."""
    return _produce_error(read_tree(tree, _Envelope))


def _is_error(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, ConverseError)


register_mirror(_is_error, Mirror(dict[str, Any], read_error))


def _produce_error(envelope: _Envelope) -> ConverseError:
    error = _rebuild(envelope)
    nearer: BaseException = error
    for cause in envelope.causes:
        nearer.__cause__ = ForeignError(
            word=cause.error, type=cause.type, detail=cause.message, stage=error.stage
        )
        nearer = nearer.__cause__
    return error


def survey_error_classes() -> dict[str, type[ConverseError]]:
    """Returns the classes of errors by their stable words, those of plugins among them."""
    classes: dict[str, type[ConverseError]] = {}
    waiting: list[type[ConverseError]] = [ConverseError]
    while waiting:
        cls = waiting.pop()
        classes.setdefault(_word_of(cls), cls)
        waiting.extend(cls.__subclasses__())
    return classes


def _word_of(cls: type[ConverseError]) -> str:
    """Returns a class's own word; for one that was given none, where it is declared."""
    own = cls.__dict__.get("WORD")
    return own if isinstance(own, str) else f"{cls.__module__}.{cls.__qualname__}"


def _rebuild(envelope: _Envelope) -> ConverseError:
    stage = envelope.stage
    cls = survey_error_classes().get(envelope.error)
    if cls is not None:
        # A plugin's class may do anything in its constructor, and facts come from anywhere.
        with contextlib.suppress(Exception):
            hints = typing.get_type_hints(cls)
            facts = {name: _read_fact(each, hints[name]) for name, each in envelope.facts.items()}
            return cls(**facts, stage=stage)
    return ForeignError(word=envelope.error, detail=envelope.message, stage=stage)


def _read_fact(value: Any, hint: Any) -> Any:
    if value in _BEYOND_JSON and float in (hint, *typing.get_args(hint)):
        return float(value)
    return read_tree(value, hint)


def _plainify(value: Any) -> Any:
    """Returns a fact as plain data; what JSON cannot say, as text."""
    try:
        return canonicalize(produce_converter().unstructure(value))
    except (CodecError, RecursionError):
        return _tell(value)


def _tell(value: object) -> str:
    try:
        return str(value)
    except Exception:  # whatever somebody's __str__ does, an error can be told
        return type(value).__name__


def _walk_causes(error: BaseException) -> Iterator[BaseException]:
    cause = error.__cause__
    for _ in range(CAUSES_LIMIT):
        if cause is None:
            return
        yield cause
        cause = cause.__cause__


def _portray(error: BaseException) -> ForeignError:
    return ForeignError(type=type(error).__name__, detail=_tell(error))


def _describe(error: BaseException) -> _Cause:
    if not isinstance(error, ConverseError):
        error = _portray(error)
    if isinstance(error, ForeignError):
        return _Cause(error=error.word, type=error.type, message=error.detail)
    return _Cause(error=_word_of(type(error)), type=type(error).__name__, message=_tell(error))


def _escape(value: Any) -> Any:
    match value:
        case str():
            return value.encode("utf-8", "backslashreplace").decode("utf-8")
        case dict():
            return {_escape(key): _escape(each) for key, each in value.items()}
        case list():
            return [_escape(each) for each in value]
    return value

"""Errors that cross to another process, and arrive as the same class, stage and facts.

Only what an error class declares as its facts is written: no arguments, no frames, no
attributes that somebody hung on it. So what may not leave must not be made a fact.
"""

from __future__ import annotations

import typing
from collections.abc import Iterator, Mapping
from typing import Any, cast

import attrs
import msgspec

from vibe_llms.exceptions import ConverseError, ForeignError, access_facts
from vibe_llms.messages.codec.canonical import canonicalize
from vibe_llms.messages.codec.converter import produce_converter, structure, structure_tree
from vibe_llms.messages.codec.explanations import explain_unknown_field, explain_unknown_word

CAUSES_LIMIT = 16
"""How far the chain of causes is followed; it may even be a ring."""


@attrs.frozen(kw_only=True)
class _Cause:
    error: str
    type: str
    message: str


@attrs.frozen(kw_only=True)
class _Envelope:
    error: str
    stage: str
    message: str
    facts: Mapping[str, Any]
    causes: tuple[_Cause, ...] = ()


def encode_error(error: BaseException) -> bytes:
    """Returns the error as one JSON document.

    An error that is not one of ours becomes a :class:`ForeignError`: its type and its text.
    Half surrogates, as paths may hold them, are escaped: an error can always be told.

    Raises:
        CodecError: A fact is something JSON cannot say.
    """
    ours = error if isinstance(error, ConverseError) else _portray(error)
    facts = {
        name: canonicalize(produce_converter().unstructure(value), f"$.facts.{name}")
        for name, value in access_facts(ours).items()
        if name != "stage"
    }
    document = {
        "error": ours.WORD,
        "stage": str(ours.stage),
        "message": str(ours),
        "facts": facts,
        "causes": [attrs.asdict(_describe(cause)) for cause in _walk_causes(error)],
    }
    return msgspec.json.encode(_escape(document))


def decode_error(data: bytes | str) -> ConverseError:
    """Reads an error. Its causes come back as :class:`ForeignError`, chained as they were.

    Raises:
        CodecError: It is none, or of a class that nothing imported here declares.
    """
    envelope: _Envelope = structure(data, _Envelope)
    classes = survey_error_classes()
    cls = classes.get(envelope.error)
    if cls is None:
        unknown = explain_unknown_word(envelope.error, tuple(sorted(classes)), "$.error")
        unknown.remedy = f"It said: {envelope.message}"
        raise unknown
    error = _rebuild(cls, envelope)
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
        classes.setdefault(cls.WORD, cls)
        waiting.extend(cls.__subclasses__())
    return classes


def _rebuild(cls: type[ConverseError], envelope: _Envelope) -> ConverseError:
    hints = typing.get_type_hints(cls)
    known = tuple(field.name for field in attrs.fields(cast(type[Any], cls)))
    facts: dict[str, Any] = {"stage": envelope.stage, **envelope.facts}
    for name in facts.keys() - set(known):
        raise explain_unknown_field(name, cls.__name__, known, "$.facts")
    return cls(
        **{
            name: structure_tree(
                value, hints[name], path="$.stage" if name == "stage" else f"$.facts.{name}"
            )
            for name, value in facts.items()
        }
    )


def _walk_causes(error: BaseException) -> Iterator[BaseException]:
    cause = error.__cause__
    for _ in range(CAUSES_LIMIT):
        if cause is None:
            return
        yield cause
        cause = cause.__cause__


def _portray(error: BaseException) -> ForeignError:
    return ForeignError(type=type(error).__name__, detail=str(error))


def _describe(error: BaseException) -> _Cause:
    if not isinstance(error, ConverseError):
        error = _portray(error)
    if isinstance(error, ForeignError):
        return _Cause(error=error.word, type=error.type, message=error.detail)
    return _Cause(error=error.WORD, type=type(error).__name__, message=str(error))


def _escape(value: Any) -> Any:
    match value:
        case str():
            return value.encode("utf-8", "backslashreplace").decode("utf-8")
        case dict():
            return {_escape(key): _escape(each) for key, each in value.items()}
        case list():
            return [_escape(each) for each in value]
    return value

"""What is wrong with data that does not read, as one of our errors."""

from __future__ import annotations

from typing import Any, cast

import attrs
from cattrs.errors import (
    ClassValidationError,
    ForbiddenExtraKeysError,
    IterableValidationError,
    IterableValidationNote,
)

from vibe_llms.exceptions import CodecError, RequestError
from vibe_llms.nearness import find_near


def explain(error: BaseException, path: str = "$") -> CodecError:
    """Turns what the detailed converter raised into one error that names the first mistake.

    Args:
        error: Possibly a group of them, each with a note of where it arose.
        path: Of the value that was to be read.
    """
    match error:
        case ClassValidationError() | IterableValidationError():
            nearer, place = _access_first(error)
            return explain(nearer, path + place)
        case ForbiddenExtraKeysError():
            return _explain_unknown_fields(error, path)
        case CodecError():
            return CodecError(
                path=path + error.path.removeprefix("$"),
                detail=error.detail,
                known=error.known,
                remedy=error.remedy,
            )
        case RequestError():
            place = path if path.endswith(f".{error.path}") else f"{path}.{error.path}"
            return CodecError(path=place, detail=error.detail, remedy=error.remedy)
        case KeyError(args=(str() as name,)) if path.endswith(f".{name}"):
            return CodecError(path=path, detail=f"The field {name!r} is missing")
    return CodecError(path=path, detail=str(error) or type(error).__name__)


def _access_first(
    group: ClassValidationError | IterableValidationError,
) -> tuple[BaseException, str]:
    """Returns the most telling of a group's errors, and where it arose, below the group."""
    noted, others = group.group_exceptions()
    if others:  # an unknown field explains a missing one: somebody misspelt it
        return others[0], ""
    error, note = noted[0]
    if isinstance(note, IterableValidationNote):
        return error, f"[{note.index}]"
    return error, f".{note.name}"


def _explain_unknown_fields(error: ForbiddenExtraKeysError, path: str) -> CodecError:
    known = tuple(field.name for field in attrs.fields(cast(type[Any], error.cl)))
    return explain_unknown_field(min(error.extra_fields), error.cl.__name__, known, path)


def explain_unknown_field(name: str, owner: str, known: tuple[str, ...], path: str) -> CodecError:
    """Says that something has no field of this name, and which it has."""
    return CodecError(
        path=f"{path}.{name}",
        detail=f"{owner} has no field {name!r}{_suggest(name, known)}",
        known=known,
        remedy="If it is no slip, a newer vibe-llms may have written it: upgrade to read it.",
    )


def explain_unknown_word(word: object, known: tuple[str, ...], path: str) -> CodecError:
    """Says that a word tells nothing here, and which words would."""
    detail = f"{word!r} is not known here{_suggest(word, known)}"
    return CodecError(path=path, detail=detail, known=known)


def _suggest(word: object, known: tuple[str, ...]) -> str:
    near = find_near(word, known)
    return f"; did you mean {near[0]!r}?" if near else ""

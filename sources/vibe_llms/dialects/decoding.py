"""What vendors send as plain data, also where it holds what no text can, or makes no sense."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from vibe_llms.events.stream import LossEvent
from vibe_llms.exceptions import ConverseError, Stage, StreamTruncatedError
from vibe_llms.messages.losses import Loss, LossKind
from vibe_llms.values import frozen

_ESCAPE: Final = re.compile(
    rb"\\(?:(u[dD][89abAB]..\\u[dD][c-fC-F]..)|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)
"""Any escape; with a first group a character in two halves, with a second one half alone."""

_NONSENSE: Final = (
    msgspec.DecodeError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
_LOSS: Final = LossEvent(
    loss=Loss(
        kind=LossKind.COERCED,
        path="response",
        reason="half a character (a lone UTF-16 surrogate) became U+FFFD",
    )
)


def decode_json(data: bytes) -> tuple[Any, tuple[LossEvent, ...]]:
    r"""Returns what JSON says, and the losses in that.

    Models cut within a character make vendors write half of it, as ``"\ud83d"``: legal JSON
    that stands for no text. There the sign for what cannot be read replaces it.

    Raises:
        msgspec.DecodeError: It is no JSON.
        UnicodeDecodeError: It is no UTF-8.
        RecursionError: It is too deep.
    """
    try:
        return msgspec.json.decode(data), ()
    except msgspec.DecodeError:
        mended = mend_escapes(data)
        if mended == data:
            raise
        return msgspec.json.decode(mended), (_LOSS,)


def is_blank(value: object) -> bool:
    """Tells whether a value says nothing: it is nothing, or holds nothing but such."""
    if isinstance(value, Mapping):
        return all(map(is_blank, value.values()))
    return all(map(is_blank, value)) if isinstance(value, list) else not value


def read_text(value: object) -> str | None:
    """Returns a value that is text; ``None`` for any other."""
    return value if isinstance(value, str) else None


@frozen
class Explaining:
    """Makes an error of ours of what comes of a frame that makes no sense.

    A class, since a generator for it would cost a small answer a twentieth of its time.

    Args:
        provider: That sent it.
        what: It is called there.
    """

    provider: str
    what: str = "a chunk"

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, _NONSENSE) and not isinstance(error, ConverseError):
            raise ConverseError(
                detail=f"{self.provider} sent {self.what} that makes no sense: {error!r}.",
                stage=Stage.DECODE,
            ) from error


def produce_truncation(provider: str) -> StreamTruncatedError:
    """Produces the error of a stream whose vendor has not said that the response is complete."""
    return StreamTruncatedError(
        detail=f"The stream of {provider} ended before its response was complete.",
        remedy="What had arrived is kept; ask again.",
    )


def produce_emptiness(provider: str) -> ConverseError:
    """Produces the error of an answer without a content, and without a word on why it has none.

    A vendor that says why (a filter, a limit, a model that had nothing to add) has answered.
    """
    return ConverseError(
        detail=f"{provider} answered with nothing: no content, nor why there is none.",
        remedy="Ask again; if it stays, the server may speak another protocol.",
        stage=Stage.DECODE,
    )


def mend_escapes(data: bytes) -> bytes:
    """Replaces each escape of half a character in JSON by that of the sign for it, U+FFFD."""
    return _ESCAPE.sub(_mend, data) if b"\\u" in data else data


def _mend(found: re.Match[bytes]) -> bytes:
    return found[0] if found[2] is None else rb"\ufffd"

"""What goes wrong with an MCP server, in words: the official package's errors, mapped once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from vibe_llms.exceptions import ConverseError, EnsembleError, Stage
from vibe_llms.secrets import Secret
from vibe_llms.wire.scrubbing import Scrubber

_CHARACTERS = 1_000


def explain(error: BaseException) -> str:
    """Returns what an error says, of a group what its first says, in bounds and in one line."""
    first = next(_flatten(error))
    if isinstance(first, TimeoutError) and not str(first):
        return "it took too long"
    text = " ".join(str(first).split()).rstrip(".") or type(first).__name__
    return text if len(text) <= _CHARACTERS else f"{text[:_CHARACTERS]} …"


def is_closure(error: BaseException) -> bool:
    """Tells whether an error says only that the connection has been closed, and not why."""
    from mcp_types import CONNECTION_CLOSED

    return getattr(next(_flatten(error)), "code", None) == CONNECTION_CLOSED


def _flatten(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _flatten(inner)
    else:
        yield error


def produce_failure(
    server: str,
    what: str,
    error: BaseException | str,
    *,
    stage: Stage = Stage.CONNECT,
    secrets: Iterable[Secret] = (),
) -> ConverseError:
    """Makes an error of ours of what has gone wrong; one that is ours already stays.

    Args:
        server: Its name.
        what: What could not be done, as ``be connected``.
        error: The error, or a reason in words.
        secrets: What the server was given and may tell; struck out.
    """
    if isinstance(error, BaseException):
        first = next(_flatten(error))
        if isinstance(first, ConverseError):
            return first
        reason = explain(error)
    else:
        first, reason = None, error
    reason = Scrubber(secrets).scrub_text(reason)
    failure = EnsembleError(
        ensemble=server,
        detail=f"The MCP server {server!r} cannot {what}: {reason}.",
        stage=stage,
    )
    failure.__cause__ = first
    return failure

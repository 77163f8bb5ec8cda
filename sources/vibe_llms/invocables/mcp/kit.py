"""The official MCP package: lazy import, and translation of its errors."""

from __future__ import annotations

import asyncio
import importlib
import logging
from collections.abc import Iterable, Iterator

from vibe_llms.exceptions import ConverseError, DependencyError, EnsembleError, Stage
from vibe_llms.foundation.optional_packages import advise_extra
from vibe_llms.foundation.secrets import Secret
from vibe_llms.wire.scrubbing import Scrubber

_CHARACTERS = 1_000
_SILENCE = logging.NullHandler()


async def load_kit() -> None:
    """Import the package if necessary, in a thread, because that takes a second.

    Raises:
        DependencyError: The package is not installed.
    """
    await asyncio.to_thread(_load)


def _load() -> None:
    try:
        importlib.import_module("mcp.client.client")
        # Without a handler, the package's log messages would be printed to standard error.
        for name in ("mcp", "client"):
            logging.getLogger(name).addHandler(_SILENCE)
    except ImportError as error:
        raise DependencyError(
            package="mcp",
            detail=f"MCP servers need the package mcp: {error}.",
            remedy=advise_extra("mcp", "mcp"),
        ) from error


def explain(error: BaseException) -> str:
    """Return the message of an error, or of the first error of a group, as one short line."""
    first = next(_flatten(error))
    if isinstance(first, TimeoutError) and not str(first):
        return "it took too long"
    text = " ".join(str(first).split()).rstrip(".") or type(first).__name__
    return text if len(text) <= _CHARACTERS else f"{text[:_CHARACTERS]} …"


def is_closure(error: BaseException) -> bool:
    """Return whether an error reports only that the connection was closed, without a reason."""
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
    action: str,
    error: BaseException | str,
    *,
    stage: Stage = Stage.CONNECT,
    secrets: Iterable[Secret] = (),
) -> ConverseError:
    """Create an ensemble error from a failure, or return an error of this package unchanged.

    Args:
        server: The name of the server.
        action: The failed action in words, as ``be connected``.
        error: The error, or a reason in words.
        secrets: Secrets of the server, which are redacted in the message.
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
        detail=f"The MCP server {server!r} cannot {action}: {reason}.",
        stage=stage,
    )
    failure.__cause__ = first
    return failure

"""The official MCP package, which is imported when the first server is connected."""

from __future__ import annotations

import asyncio
import importlib
import logging

from vibe_llms.exceptions import DependencyError
from vibe_llms.installing import advise_extra

_SILENCE = logging.NullHandler()


async def load_kit() -> None:
    """Imports the package where that has not been done: in a thread, as it takes a second.

    Raises:
        DependencyError: It is not installed.
    """
    await asyncio.to_thread(_load)


def _load() -> None:
    try:
        importlib.import_module("mcp.client.client")
        for name in ("mcp", "client"):  # the package's loggers: for who listens, not for screens
            logging.getLogger(name).addHandler(_SILENCE)
    except ImportError as error:
        raise DependencyError(
            package="mcp",
            detail=f"Speaking to MCP servers needs the package mcp: {error}.",
            remedy=advise_extra("mcp", "mcp"),
        ) from error

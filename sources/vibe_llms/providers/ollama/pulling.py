"""Download of a model by the server, if the user agrees, with its progress."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import msgspec

from vibe_llms.dialects.ollama_chat.calling.errors import produce_error
from vibe_llms.exceptions import (
    ConverseError,
    ProviderError,
    ProviderFault,
    Stage,
    StreamTruncatedError,
    UnknownNameError,
)
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.foundation.json_errors import UNREADABLE
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.plugins.specification.models import ProviderContext
from vibe_llms.plugins.specification.users import Progress
from vibe_llms.providers.batching import receive_lines
from vibe_llms.wire.size_limits import describe_address

if TYPE_CHECKING:
    from vibe_llms.providers.vendors import VendorClient


def is_missing(error: ConverseError) -> bool:
    """Return whether an error means that the server does not have the model."""
    is_not_found = isinstance(error, ProviderError) and error.fault is ProviderFault.NOT_FOUND
    return is_not_found and "model" in error.detail  # distinguishes it from an unknown path


async def pull(client: VendorClient, model: str) -> None:
    """Let the server download a model, if the user agrees.

    Raises:
        UnknownNameError: The user does not agree.
        ConverseError: The download failed.
    """
    context = client.vendor.context
    # Without a password that the URL may contain.
    address = describe_address(client.vendor.settings.base_url)
    if not await asyncio.to_thread(_ask_for_consent, context, model, address):
        raise UnknownNameError(
            kind="model",
            name=model,
            detail=f"The server at {address} does not have the model {model!r}.",
            remedy=f"Run: vibe models pull {context.name}:{model}",
        )
    display = _Display(context.progress)
    try:
        status = ""
        body: JsonObject = {"model": model, "stream": True}
        async with aclosing(receive_lines(client, "/api/pull", body, model=model)) as lines:
            async for data in lines:
                line = _read(data)
                if line.get("error"):
                    raise client.clean(produce_error(line, provider=context.name, model=model))
                status = str(line.get("status", ""))
                display.show(line)
    finally:
        display.finish()
    if status != "success":
        raise StreamTruncatedError(
            detail=f"The server stopped downloading {model} at {status!r}.",
            remedy="Try again: it resumes.",
        )


def _ask_for_consent(context: ProviderContext, model: str, address: str) -> bool:
    question = (
        f"The Ollama server at {address} does not have {model}. Let it download the model from its "
        "registry (some hundred megabytes to many gigabytes; the size is shown at the start)?"
    )
    return context.consent.ask(f"model:{context.name}:{model}", question)


def _read(data: bytes) -> Mapping[str, Any]:
    try:
        line = msgspec.json.decode(data)
    except UNREADABLE:
        line = None
    if isinstance(line, Mapping):
        return line
    raise ConverseError(
        detail="The server sent an invalid line of progress.",
        stage=Stage.DECODE,
    )


@define
class _Display:
    """One progress bar for each file of the model, one after the other."""

    progress: Progress
    digest: str = ""
    reported_bytes: int = 0

    def show(self, line: Mapping[str, Any]) -> None:
        """Process a line ``{"status", "digest", "total", "completed"}``."""
        digest, total = line.get("digest"), line.get("total")
        if not isinstance(digest, str) or not isinstance(total, int):
            return
        if digest != self.digest:
            self.finish()
            self.digest, self.reported_bytes = digest, 0
            self.progress.start(total, str(line.get("status") or f"Fetching {digest}"))
        completed = line.get("completed")
        if isinstance(completed, int) and completed > self.reported_bytes:
            self.progress.advance(completed - self.reported_bytes)
            self.reported_bytes = completed

    def finish(self) -> None:
        """End the bar, if there is one."""
        if self.digest:
            self.progress.finish()
            self.digest = ""

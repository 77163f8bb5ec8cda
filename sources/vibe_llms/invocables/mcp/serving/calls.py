"""One call of a client's: what it says on its way, and its end when the client wants none."""

from __future__ import annotations

import asyncio
import warnings
from collections import deque
from typing import Final

import anyio
import attrs
from mcp.shared.exceptions import MCPDeprecationWarning

from vibe_llms.invocables.contexts import InvocationContext
from vibe_llms.invocables.invokers import Invoker
from vibe_llms.invocables.mcp.serving.approving import Context
from vibe_llms.invocables.mcp.tools import KEY_META
from vibe_llms.invocables.outcomes import Outcome
from vibe_llms.invocables.performing import perform
from vibe_llms.plain import JsonObject, escape_halves
from vibe_llms.values import define

LOG_LEVEL: Final = "info"
"""As what a word on the way is told to a client that reads a log."""

_MOST_WAITING: Final = 100
"""So many words on the way wait for a client that reads slowly; then the oldest are left out."""


async def perform_call(
    invoker: Invoker, arguments: JsonObject, context: Context, *, wants_log: bool = False
) -> Outcome:
    """Executes a call, tells the client how far it is, and ends it when it is cancelled.

    Args:
        wants_log: The client's session reads a log; how far the call is, is told there where
            this call asks for no progress.
    """
    teller = _Teller(context, wants_log)
    invocation = InvocationContext(
        invocation_id=str(context.request_id),
        idempotency_key=_read_key(context),
        listener=teller.hear,
    )
    # A task of its own: the package repeats its cancellations, and would not let it clean up.
    performing = asyncio.ensure_future(perform(invoker, arguments, invocation))
    telling = asyncio.ensure_future(teller.tell())
    try:
        outcome = await asyncio.shield(performing)
    except asyncio.CancelledError:
        performing.cancel()
        telling.cancel()
        with anyio.CancelScope(shield=True):
            await asyncio.wait((performing, telling))
        raise
    teller.end()
    await telling
    return outcome


def _read_key(context: Context) -> str:
    """Returns what all attempts at the call have in common, where the client has said it."""
    key = (context.meta or {}).get(KEY_META)
    return key if isinstance(key, str) else ""


@define(eq=False)
class _Teller:
    """Takes what a call says, from where nobody may wait, and sends it in order."""

    _context: Context
    _wants_log: bool
    _count: int = attrs.field(default=0, init=False)
    _waiting: deque[tuple[int, str]] = attrs.field(
        factory=lambda: deque(maxlen=_MOST_WAITING), init=False
    )
    _news: asyncio.Event = attrs.field(factory=asyncio.Event, init=False)
    _is_over: bool = attrs.field(default=False, init=False)

    def hear(self, text: str) -> None:
        """Takes a word."""
        self._count += 1
        self._waiting.append((self._count, escape_halves(str(text))))
        self._news.set()

    def end(self) -> None:
        """Says that there will be no more."""
        self._is_over = True
        self._news.set()

    async def tell(self) -> None:
        """Sends what was heard, until the end."""
        while True:
            while self._waiting:
                number, text = self._waiting.popleft()
                await self._send(number, text)
            if self._is_over:
                return
            self._news.clear()
            await self._news.wait()

    async def _send(self, number: int, text: str) -> None:
        """Sends a word in the one way that the client has asked for; else not at all."""
        session = self._context.session
        if "progress_token" in (self._context.meta or {}):
            await session.report_progress(number, None, text)
        elif self._wants_log:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", MCPDeprecationWarning)  # such clients are there
                sent = session.send_log_message(LOG_LEVEL, text, None, self._context.request_id)
            await sent

"""What a function may know about the call that it serves, and how it says how far it is."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import attrs

from vibe_llms.values import define


def _access_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


@define(kw_only=True, eq=False)
class InvocationContext:
    """One call, as its function sees it.

    A function asks for it with a parameter of this type; the model never hears of that one.

    Attributes:
        invocation_id: The model's id of the call.
        run_id: Of the run; empty outside of one.
        idempotency_key: The same for every attempt at the same call, to be handed to services
            which then do a thing once however often they are told.
        listener: Hears of progress, in the event loop in which the context was made.
        cancelled: Nobody waits for the result any more. A function in a thread cannot be
            stopped from outside: a long one looks here now and then, and returns.
    """

    invocation_id: str = ""
    run_id: str = ""
    idempotency_key: str = ""
    listener: Callable[[str], None] | None = attrs.field(default=None, repr=False)
    _loop: asyncio.AbstractEventLoop | None = attrs.field(
        factory=_access_loop, init=False, repr=False
    )
    cancelled: bool = attrs.field(default=False, init=False)

    def cancel(self) -> None:
        """Tells the function that nobody waits any more."""
        self.cancelled = True

    def progress(self, text: str) -> None:
        """Says how far the call is, in a few words; from any thread, and without waiting."""
        if self.listener is None or self.cancelled:
            return
        if self._loop is None or _access_loop() is self._loop:
            self.listener(text)
            return
        try:
            self._loop.call_soon_threadsafe(self.listener, text)
        except RuntimeError:
            return  # the loop has ended meanwhile, and with it whoever listened

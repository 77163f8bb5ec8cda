"""Event bus: one event for many listeners."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable
from types import FunctionType
from typing import Generic, TypeVar

_Event = TypeVar("_Event")


class EventBus(Generic[_Event]):
    """Publish/subscribe for events; listeners are called in the order of subscription.

    If a listener raises, one warning names it. It is still called for later events, and other
    listeners are not affected. Itself callable, so that a bus can stand wherever one listener can.
    """

    def __init__(self) -> None:
        self._listeners: dict[object, Callable[[_Event], object]] = {}
        self._warned: set[object] = set()

    def __repr__(self) -> str:
        from vibe_llms.foundation.reprs import represent

        return represent("EventBus", (("listeners", len(self._listeners)),))

    def subscribe(self, listener: Callable[[_Event], object]) -> Callable[[], None]:
        """Add a plain listener and return the function that removes it again.

        Raises:
            TypeError: The listener is asynchronous; a bus cannot await it.
        """
        if is_asynchronous(listener):
            raise TypeError(f"{name_listener(listener)} is asynchronous; a bus calls in place.")
        # A listener may subscribe twice; each subscription has its own function.
        key = object()
        self._listeners[key] = listener

        def unsubscribe() -> None:
            self._listeners.pop(key, None)
            self._warned.discard(key)

        return unsubscribe

    def publish(self, event: _Event) -> None:
        """Call every listener with the event."""
        # A copy: listeners may subscribe and unsubscribe while they are called.
        for key, listener in tuple(self._listeners.items()):
            try:
                listener(event)
            # A cancellation inside of the listener must not end the publisher.
            except (Exception, asyncio.CancelledError) as error:
                if key not in self._warned:
                    self._warned.add(key)
                    warn_of_failure(listener, error)

    __call__ = publish


def warn_of_failure(listener: object, error: BaseException) -> None:
    """Log that a listener raised; the caller does so once for each listener.

    A log record instead of a Python warning: a host that turns warnings into errors would otherwise
    be affected by its own listener.
    """
    logging.getLogger("vibe_llms.events").warning(
        "The listener %s raised %s: %s. It is still called for later events.",
        name_listener(listener),
        type(error).__name__,
        error,
        exc_info=error,
    )


def name_listener(listener: object) -> str:
    """Return a listener's name for people."""
    return getattr(listener, "__qualname__", None) or type(listener).__qualname__


def is_asynchronous(listener: object) -> bool:
    """Return whether calling a listener returns an awaitable."""
    function = getattr(listener, "__func__", listener)
    if function.__class__ is FunctionType and not function.__dict__:  # most are: check no further
        return bool(function.__code__.co_flags & inspect.CO_COROUTINE)
    return inspect.iscoroutinefunction(listener) or inspect.iscoroutinefunction(
        getattr(type(listener), "__call__", None)  # noqa: B004  # an object with an async __call__
    )

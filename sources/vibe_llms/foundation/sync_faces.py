"""Synchronous wrappers of asynchronous classes, which call their methods through the portal.

A wrapper declares for each method how to call it, with one of the functions below; the name, the
documentation and the signature are those of the asynchronous method. Type checkers derive the
signatures, including overloads, so that the two classes cannot differ::

    class SyncModel(SyncFace[Model]):
        @constructed_like(Model)
        def __init__(self, *args: Any, **settings: Any) -> None:
            super().__init__(Model(*args, **settings))

        request = direct(Model.request)
        ask = blocking(Model.ask)
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, contextmanager
from copy import copy
from functools import wraps
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Self, TypeVar, cast

if TYPE_CHECKING:
    from vibe_llms.foundation.portal import Portal

_P = ParamSpec("_P")
_R = TypeVar("_R")
_Face = TypeVar("_Face")
_A = TypeVar("_A", bound="AbstractAsyncContextManager[Any, Any]")

_END = object()


class SyncFace(Generic[_A]):
    """Synchronous wrapper of an asynchronous object.

    Args:
        asynchronous: The wrapped object.
    """

    def __init__(self, asynchronous: _A) -> None:
        self._asynchronous = asynchronous

    def __copy__(self) -> Self:
        copied = self.__class__.__new__(self.__class__)
        SyncFace.__init__(copied, copy(self._asynchronous))
        return copied

    def __repr__(self) -> str:
        return f"Sync{repr(self._asynchronous).removeprefix('Async')}"

    @property
    def asynchronous(self) -> _A:
        """The wrapped object, for asynchronous code."""
        return self._asynchronous

    def __enter__(self) -> Self:
        _access_portal().call(self._asynchronous.__aenter__)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _access_portal().call(lambda: self._asynchronous.__aexit__(kind, error, traceback))


def _like(method: Callable[..., Any]) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Give a function the name and docstring of a method, adapted to synchronous code."""

    def decorate(function: Callable[_P, _R]) -> Callable[_P, _R]:
        wrapped = wraps(method)(function)
        wrapped.__doc__ = _ASYNCHRONOUS.sub("", method.__doc__ or "") or None
        return wrapped

    return decorate


_ASYNCHRONOUS = re.compile(r"\basync (?=with\b|for\b)|\bawait (?=\w)")


def constructed_like(
    asynchronous_class: Callable[_P, Any],
) -> Callable[[Callable[..., None]], Callable[Concatenate[Any, _P], None]]:
    """Declare that a constructor has the parameters of the asynchronous class's constructor."""
    return wraps(cast(Any, asynchronous_class).__init__)


def direct(method: Callable[Concatenate[Any, _P], _R]) -> Callable[Concatenate[Any, _P], _R]:
    """Call a method that does not wait, in the caller's thread."""

    @_like(method)
    def call(self: SyncFace[Any], /, *args: _P.args, **settings: _P.kwargs) -> _R:
        result: _R = _bind(self, method)(*args, **settings)
        return result

    return call


def blocking(
    method: Callable[Concatenate[Any, _P], Awaitable[_R]],
) -> Callable[Concatenate[Any, _P], _R]:
    """Call an asynchronous method, and wait for its result."""

    @_like(method)
    def call(self: SyncFace[Any], /, *args: _P.args, **settings: _P.kwargs) -> _R:
        function: Callable[..., Awaitable[_R]] = _bind(self, method)
        return _access_portal().call(lambda: function(*args, **settings))

    return call


def iterating(
    method: Callable[Concatenate[Any, _P], AsyncIterator[_R]], *, closes: bool = False
) -> Callable[Concatenate[Any, _P], Iterator[_R]]:
    """Call a method that returns an asynchronous iterator, and iterate over it.

    Args:
        closes: Close the iterator, and so stop its work, if the caller leaves the loop early.
            Otherwise the caller may continue later.
    """

    @_like(method)
    def call(self: SyncFace[Any], /, *args: _P.args, **settings: _P.kwargs) -> Iterator[_R]:
        return iterate(_bind(self, method)(*args, **settings), closes=closes)

    return call


def iterate(items: AsyncIterator[_R], *, closes: bool = False) -> Iterator[_R]:
    """Iterate over an asynchronous iterator through the portal; see :func:`iterating`."""
    portal = _access_portal()

    async def advance() -> object:
        return await anext(items, _END)

    try:
        while (item := portal.call(advance)) is not _END:
            yield cast("_R", item)
    finally:
        if closes:
            portal.release(cast(Any, items).aclose)


def entering(
    method: Callable[Concatenate[Any, _P], AbstractAsyncContextManager[_R]],
    produce_face: Callable[[_R], _Face],
) -> Callable[Concatenate[Any, _P], AbstractContextManager[_Face]]:
    """Call a method that returns an asynchronous context manager, whose value is wrapped, too."""

    @contextmanager
    @_like(method)
    def call(self: SyncFace[Any], /, *args: _P.args, **settings: _P.kwargs) -> Iterator[_Face]:
        portal = _access_portal()
        context = _bind(self, method)(*args, **settings)
        entered = portal.call(context.__aenter__)
        try:
            yield produce_face(entered)
        finally:
            portal.release(lambda: context.__aexit__(None, None, None))

    return call


def _access_portal() -> Portal:
    from vibe_llms.foundation.portal import (
        access_portal,  # imports asyncio, which wrapper classes themselves do not need
    )

    return access_portal()


def _bind(face: SyncFace[Any], method: Callable[..., Any]) -> Any:
    """Return the method of the wrapped object, whose class may have its own implementation."""
    return getattr(face.asynchronous, method.__name__)

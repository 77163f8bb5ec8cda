"""Imports aiohttp without reading the system's certificates, which are read when TLS needs them.

aiohttp makes two TLS contexts when it is imported, and all certificates are read for each: more
than half of what its import costs, and nothing that a plain connection on this machine needs.
"""

from __future__ import annotations

import ssl
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

_LOCK: Final = threading.Lock()


class DeferredContext(ssl.SSLContext):
    """A context that reads the certificates when it is first used, and is a usual one then."""

    def wrap_bio(self, *arguments: Any, **options: Any) -> ssl.SSLObject:
        """Reads the certificates, and goes on as usual."""
        return self._load().wrap_bio(*arguments, **options)

    def wrap_socket(self, *arguments: Any, **options: Any) -> ssl.SSLSocket:
        """Reads the certificates, and goes on as usual."""
        return self._load().wrap_socket(*arguments, **options)

    def cert_store_stats(self) -> dict[str, int]:
        """Reads the certificates, and goes on as usual."""
        return self._load().cert_store_stats()

    def get_ca_certs(self, *arguments: Any, **options: Any) -> Any:
        """Reads the certificates, and goes on as usual."""
        return self._load().get_ca_certs(*arguments, **options)

    def _load(self) -> ssl.SSLContext:
        self.__class__ = ssl.SSLContext  # type: ignore[assignment]
        self.load_default_certs()
        return self


def import_aiohttp() -> None:
    """Imports aiohttp, with certificates that are read later, unless somebody has imported it."""
    if "aiohttp" not in sys.modules:
        with _defer():
            import aiohttp  # noqa: F401


@contextmanager
def _defer() -> Iterator[None]:
    """Lets contexts that this thread makes meanwhile read their certificates later."""
    with _LOCK:  # two at once would put back each other's
        yield from _replace()


def _replace() -> Iterator[None]:
    thread, context = threading.get_ident(), ssl.SSLContext
    load, set_paths = context.load_default_certs, context.set_default_verify_paths

    def load_later(self: ssl.SSLContext, *arguments: Any) -> None:
        if threading.get_ident() == thread and self.__class__ is context:
            self.__class__ = DeferredContext
        else:
            load(self, *arguments)

    def set_later(self: ssl.SSLContext) -> None:
        if threading.get_ident() == thread and self.__class__ is context:
            self.__class__ = DeferredContext
        else:
            set_paths(self)

    context.load_default_certs = load_later  # type: ignore[method-assign, assignment]
    context.set_default_verify_paths = set_later  # type: ignore[method-assign]
    try:
        yield
    finally:
        context.load_default_certs = load  # type: ignore[method-assign]
        del context.set_default_verify_paths

"""A plugin's store, whose errors name the plugin."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, Final

import attrs

from vibe_llms.exceptions import ConverseError, PluginError, Stage
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.plugins.loading import describe_error

_PARTS: Final = frozenset({"contents", "content_backends", "index"})
"""Members of a store that have methods of their own."""


@frozen
class PluggedStore:
    """Passes every call on to a plugin's store, or to a part of it.

    Foreign errors become a PluginError that names the plugin, so that they are not mistaken for a
    defect of this package, or for an empty store.

    Attributes:
        plugin: Its name.
        what: Its part in words, as ``store 'vault' of [plugins.bank]``.
        remedy: The fix for the user.
    """

    _store: Any
    plugin: str = attrs.field(eq=False)
    what: str = attrs.field(eq=False)
    remedy: str = attrs.field(eq=False)

    def __getattr__(self, name: str) -> Any:
        # copy and pickle look for such names, even before the store is set.
        if name.startswith("__"):
            raise AttributeError(name)
        with self._blaming(name, but=AttributeError):  # without it, the store lacks the method
            value = getattr(self._store, name)
        if name in _PARTS and value is not None:
            return attrs.evolve(self, store=value)
        return self._guard(name, value) if callable(value) else value

    def _guard(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(*arguments: Any, **named: Any) -> Any:
            with self._blaming(name):
                answer = function(*arguments, **named)
            # An iterator raises while it is consumed, and is blamed then.
            return self._go_through(name, answer) if isinstance(answer, Iterator) else answer

        return call

    def _go_through(self, name: str, answer: Iterator[Any]) -> Iterator[Any]:
        with self._blaming(name):
            yield from answer

    @contextmanager
    def _blaming(self, name: str, *, but: type[Exception] | tuple[()] = ()) -> Iterator[None]:
        try:
            yield
        except (ConverseError, GeneratorExit):
            raise
        except but:
            raise
        except (Exception, SystemExit) as error:
            raise PluginError(
                plugin=self.plugin,
                detail=f"The {self.what} failed: {name} raised {describe_error(error)}.",
                remedy=self.remedy,
                stage=Stage.STORE,
            ) from error

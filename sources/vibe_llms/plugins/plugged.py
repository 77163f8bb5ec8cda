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
    """Wrapper of a plugin's store, or of a part of it: it passes every call on.

    Foreign errors become a PluginError that names the plugin, so that they are not mistaken for a
    defect of this package, or for an empty store.

    Attributes:
        plugin: The plugin's name.
        description: The store in words, such as ``store 'vault' of [plugins.bank]``.
        remedy: The fix for the user.
    """

    _store: Any
    plugin: str = attrs.field(eq=False)
    description: str = attrs.field(eq=False)
    remedy: str = attrs.field(eq=False)

    def __getattr__(self, name: str) -> Any:
        # copy and pickle look up such names, even before the store is set.
        if name.startswith("__"):
            raise AttributeError(name)
        # An AttributeError means that the store lacks an optional method.
        with self._naming_plugin(name, but=AttributeError):
            value = getattr(self._store, name)
        if name in _PARTS and value is not None:
            return attrs.evolve(self, store=value)
        return self._guard(name, value) if callable(value) else value

    def _guard(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(*arguments: Any, **options: Any) -> Any:
            with self._naming_plugin(name):
                answer = function(*arguments, **options)
            # An iterator raises its errors later, while it is consumed.
            return self._iterate(name, answer) if isinstance(answer, Iterator) else answer

        return call

    def _iterate(self, name: str, answer: Iterator[Any]) -> Iterator[Any]:
        with self._naming_plugin(name):
            yield from answer

    @contextmanager
    def _naming_plugin(self, name: str, *, but: type[Exception] | tuple[()] = ()) -> Iterator[None]:
        """Convert foreign errors in the block, except for a class, to errors with the plugin."""
        try:
            yield
        except (ConverseError, GeneratorExit):
            raise
        except but:
            raise
        except (Exception, SystemExit) as error:
            raise PluginError(
                plugin=self.plugin,
                detail=f"The {self.description} failed: {name} raised {describe_error(error)}.",
                remedy=self.remedy,
                stage=Stage.STORE,
            ) from error

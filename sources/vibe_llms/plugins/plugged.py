"""A plugin's store, whose mistakes are told as its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, Final

import attrs

from vibe_llms.exceptions import ConverseError, PluginError, Stage
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.plugins.loading import describe_error

_PARTS: Final = frozenset({"contents", "index"})
"""What of a store has methods of its own."""


@frozen
class PluggedStore:
    """Passes everything on to a plugin's store, or to a part of it.

    What that raises besides our own errors becomes a PluginError, which names the plugin: nobody
    shall take it for a defect of ours, or for an empty store.

    Attributes:
        plugin: Its name.
        what: What it has, in words, as ``store 'vault' of [plugins.bank]``.
        remedy: What its user can do.
    """

    _store: Any
    plugin: str = attrs.field(eq=False)
    what: str = attrs.field(eq=False)
    remedy: str = attrs.field(eq=False)

    def __getattr__(self, name: str) -> Any:
        # copy and pickle look for such names, also before there is a store to ask.
        if name.startswith("__"):
            raise AttributeError(name)
        with self._blaming(name, but=AttributeError):  # without it, it is no such store
            value = getattr(self._store, name)
        if name in _PARTS:
            return attrs.evolve(self, store=value)
        return self._guard(name, value) if callable(value) else value

    def _guard(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(*arguments: Any, **named: Any) -> Any:
            with self._blaming(name):
                answer = function(*arguments, **named)
            # What is given piece by piece breaks while it is gone through, and is blamed then.
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
                detail=f"The {self.what} broke: {name} raised {describe_error(error)}.",
                remedy=self.remedy,
                stage=Stage.STORE,
            ) from error

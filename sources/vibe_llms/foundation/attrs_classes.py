"""``define`` and ``frozen`` of attrs with shared methods, which halves the time to define classes.

attrs generates and compiles the methods of each class whenever a program starts. Half of them
compare, hash and show values; these can be the same for all classes, and are here. The others are
compiled once (:mod:`.method_cache`). Type checkers see the original decorators of attrs, which
they know.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import attrs

from vibe_llms.foundation import method_cache
from vibe_llms.foundation.reprs import represent_fields

method_cache.install()


class _Methods:
    """Methods that all classes share."""

    __repr__ = represent_fields

    def __eq__(self, other: object) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        kind: Any = self.__class__
        read_key = _make_comparison_key(kind)
        return bool(read_key(self) == read_key(other))

    def __hash__(self) -> int:
        kind: Any = self.__class__
        return hash((kind, _make_comparison_key(kind)(self)))


@cache
def _make_comparison_key(cls: Any) -> Callable[[object], object]:
    """Return a function that reads those fields of a value that are compared."""
    fields = [field for field in attrs.fields(cls) if field.eq]
    if len(fields) > 1 and not any(field.eq_key for field in fields):
        return attrgetter(*(field.name for field in fields))  # the fastest way
    keys = [(field.name, field.eq_key or _identity) for field in fields]
    return lambda value: tuple(key(getattr(value, name)) for name, key in keys)


def _identity(value: object) -> object:
    return value


def _without_shared_methods(decorator: Callable[..., Any], *, hashes: bool) -> Callable[..., Any]:
    """Wrap a decorator of attrs so that it does not generate the shared methods."""

    def decorate(cls: type[Any] | None = None, **settings: Any) -> Any:
        def make(cls: Any) -> Any:
            own = vars(cls)
            if "__repr__" not in own:
                cls.__repr__ = _Methods.__repr__
            # attrs does this for classes that compare by identity.
            if "__eq__" not in own and settings.get("eq") is not False:
                cls.__eq__ = _Methods.__eq__
                if "__hash__" not in own:
                    cls.__hash__ = _Methods.__hash__ if hashes else None
            return decorator(cls, **settings)

        return make if cls is None else make(cls)

    return decorate


if TYPE_CHECKING:
    from attrs import define as define
    from attrs import frozen as frozen
else:
    define = _without_shared_methods(attrs.define, hashes=False)
    """``attrs.define``, for classes whose instances change."""
    frozen = _without_shared_methods(attrs.frozen, hashes=True)
    """``attrs.frozen``, for values, which do not change."""

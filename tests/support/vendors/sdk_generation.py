"""Values of the types of the official SDKs, generated from their annotations.

Tests pass all combinations that the SDKs allow in requests and answers through the dialects, which
must preserve them.
"""

from __future__ import annotations

import base64
import collections.abc
import itertools
import random
import re
import typing
from collections.abc import Mapping
from types import UnionType
from typing import Any, Final

from hypothesis import settings
from hypothesis import strategies as st
from pydantic import BaseModel
from typing_extensions import get_type_hints, is_typeddict

TEXTS: Final = st.text('aé∑🙂 {}"\\\n', min_size=1, max_size=6).map(lambda text: f"{text}.")
NAMES: Final = st.text("abcxyz_", min_size=3, max_size=5)
DATA: Final = st.binary(max_size=6).map(lambda data: base64.b64encode(data).decode("ascii"))
JSON: Final = st.recursive(
    st.booleans() | st.integers(-9, 9) | st.floats(-9, 9, width=16) | TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(NAMES, inner, max_size=2),
    max_leaves=4,
)
OBJECTS: Final = st.dictionaries(NAMES, JSON, max_size=2)
PROBABILITY: Final = 3
"""One in this many optional fields is present."""
FEW: Final = settings(max_examples=min(25, settings().max_examples))
"""Settings for values of large types, each of which covers many cases."""

Special: typing.TypeAlias = Mapping[str, st.SearchStrategy[Any]]


def generate(annotation: Any, special: Special | None = None) -> st.SearchStrategy[Any]:
    """Return a strategy for values of an annotation of an SDK, as they are on the wire.

    Args:
        special: Strategies for fields by their names, in place of their annotations;
            ``Class.field`` takes precedence over ``field``.
    """
    return _Generator(special or {}).generate(annotation)


class _Generator:
    """Creator of strategies: one for each class, so that classes can contain themselves."""

    def __init__(self, special: Special) -> None:
        self._special = special
        self._known: dict[Any, st.SearchStrategy[Any]] = {}

    def generate(self, annotation: Any) -> st.SearchStrategy[Any]:
        origin: Any = typing.get_origin(annotation)
        args = typing.get_args(annotation)
        if origin in _WRAPPERS:
            return self.generate(args[0])
        if origin in (typing.Union, UnionType):
            return st.one_of([self.generate(arg) for arg in args if arg is not type(None)])
        if origin is typing.Literal:
            return st.sampled_from(args)
        if origin in (dict, collections.abc.Mapping):
            return st.dictionaries(NAMES, self.generate(args[1]), max_size=2)
        if origin in (list, collections.abc.Iterable, collections.abc.Sequence):
            return st.lists(self.generate(args[0]), min_size=1, max_size=3)
        if is_typeddict(annotation) or _is_model(annotation):
            return self._access_class(annotation)
        return _PLAIN.get(annotation, OBJECTS)

    def _access_class(self, cls: Any) -> st.SearchStrategy[Any]:
        if cls not in self._known:
            self._known[cls] = st.deferred(lambda: self._produce_class(cls))
        return self._known[cls]

    def _produce_class(self, cls: Any) -> st.SearchStrategy[Any]:
        fields, needed = survey_fields(cls)
        strategies = {name: self._find(cls, name, hint) for name, hint in fields.items()}

        @st.composite
        def compose(draw: st.DrawFn) -> dict[str, Any]:
            return {
                name: draw(strategy)
                for name, strategy in strategies.items()
                if name in needed or draw(st.integers(1, PROBABILITY)) == PROBABILITY
            }

        return compose()

    def _find(self, cls: Any, name: str, hint: Any) -> st.SearchStrategy[Any]:
        for key in (f"{cls.__name__}.{name}", name):
            if key in self._special:
                return self._special[key]
        return self.generate(hint)


_WRAPPERS: Final[tuple[Any, ...]] = (typing.Annotated, typing.Required, typing.NotRequired)
_PLAIN: Final[Mapping[Any, st.SearchStrategy[Any]]] = {
    str: TEXTS,
    bool: st.booleans(),
    int: st.integers(0, 2**40),
    float: st.floats(0, 1),
}


def survey_fields(cls: Any) -> tuple[dict[str, Any], set[str]]:
    """Return the annotations of a class by the names on the wire, and the required names."""
    if is_typeddict(cls):
        hints = get_type_hints(cls)
        needed = get_type_hints(cls, include_extras=True)
        origins: dict[str, Any] = {n: typing.get_origin(hint) for n, hint in needed.items()}
        required = {n for n, origin in origins.items() if origin is typing.Required}
        return (
            {_unescape(name): hint for name, hint in hints.items()},
            {_unescape(name) for name in required},
        )
    fields = {field.alias or name: field for name, field in cls.model_fields.items()}
    return (
        {name: field.annotation for name, field in fields.items()},
        {name for name, field in fields.items() if field.is_required()},
    )


def _unescape(name: str) -> str:
    return re.sub("_$", "", name)


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def add_unknown_fields(value: Any, chance: random.Random, share: float = 0.1) -> Any:
    """Return a value with unknown fields in some of its objects, at any depth."""
    if isinstance(value, list):
        return [add_unknown_fields(each, chance, share) for each in value]
    if not isinstance(value, dict):
        return value
    fields = {name: add_unknown_fields(each, chance, share) for name, each in value.items()}
    return fields | ({"x_new": chance.choice(_NEW)} if chance.random() < share else {})


_NEW: Final[tuple[Any, ...]] = (None, True, "", "a", [], {}, [None], {"a": [1]}, -0.0, 1e300, 2**60)

Whole = typing.TypeVar("Whole", str, bytes)


def split_randomly(whole: Whole, chance: random.Random) -> list[Whole]:
    """Return the pieces of a text, or of bytes, split at any places; some may be empty."""
    places: list[int] = sorted(
        chance.randint(0, len(whole)) for _ in range(chance.choice([0, 1, 2, 30]))
    )
    return [whole[a:b] for a, b in itertools.pairwise([0, *places, len(whole)])]

"""Classes of ours compare, hash and show as those of attrs do, which makes less for each."""

from __future__ import annotations

import copy
import pickle
import re
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import vibe_llms
from vibe_llms.foundation.attrs_classes import define, frozen


def _add_fields(cls: type[Any]) -> None:
    """Gives a class fields of all kinds: plain, not compared, compared by a key, not shown."""
    cls.__annotations__ = {"first": "object", "second": "object", "third": "object", "key": "str"}
    cls.second = attrs.field(default=0, eq=False)
    cls.third = attrs.field(default=None, repr=False)
    cls.key = attrs.field(default="", eq=str.lower)


class _Ours:
    pass


class _Theirs:
    pass


_add_fields(_Ours)
_add_fields(_Theirs)
Ours: Any = frozen(_Ours)
Theirs: Any = attrs.frozen(_Theirs)

PLAIN = st.one_of(st.integers(0, 2), st.sampled_from(["", "a", None, (), (1, 2), 1.0, True]))
ARGUMENTS = st.tuples(PLAIN, PLAIN, PLAIN, st.sampled_from(["", "a", "A", "b"]))


@given(one=ARGUMENTS, other=ARGUMENTS)
def test_what_is_equal_with_attrs_is_equal_here(
    one: tuple[object, ...], other: tuple[object, ...]
) -> None:
    """Fields that do not count do not, and keys are what is compared; equal values hash alike."""
    is_equal = Theirs(*one) == Theirs(*other)

    assert (Ours(*one) == Ours(*other)) is is_equal
    assert (Ours(*one) != Ours(*other)) is not is_equal
    assert not is_equal or hash(Ours(*one)) == hash(Ours(*other))


def test_values_of_two_classes_are_never_equal() -> None:
    """Be their fields the same, or one class derived from the other."""

    @frozen
    class Base:
        size: int

    @frozen
    class Derived(Base):
        pass

    @frozen
    class Other:
        size: int

    @frozen
    class Empty:
        pass

    assert len({Base(1), Derived(1), Other(1), Empty(), Base(1), Empty()}) == 4
    assert Base(1) != 1


def test_what_owns_state_has_no_hash_and_compares_unless_it_shall_not() -> None:
    """As with attrs."""

    @define
    class Box:
        size: float

    @define(eq=False)
    class Service:
        size: float

    assert Box(1) == Box(1)
    with pytest.raises(TypeError, match="unhashable"):
        hash(Box(1))
    assert Service(1) != Service(1)
    assert len({Service(1), Service(1)}) == 2


def test_what_a_class_says_itself_stays() -> None:
    """Its own way to compare, and to be shown; one that compares in its own way has no hash."""

    @frozen
    class Word:
        text: str

        def __repr__(self) -> str:
            return "a word"

        def __eq__(self, other: object) -> bool:
            return True

    assert repr(Word("a")) == "a word"
    assert Word("a") == Word("b")
    assert Word.__hash__ is None


def test_only_the_constructor_is_made_for_a_class() -> None:
    """That is what costs at the start of a program."""
    own = {name for name, value in vars(Ours).items() if "attrs generated" in _file_of(value)}

    assert own == {"__init__"}


def test_no_class_is_made_by_attrs_alone() -> None:
    """One that is costs twice as much at the start, and shows itself in another way."""
    package = Path(vibe_llms.__file__).parent
    texts = {path: path.read_text("utf-8") for path in package.rglob("*.py")}

    assert not [path for path, text in texts.items() if _DECORATED.search(text)]


_DECORATED = re.compile(r"^\s*@attrs?\.\w", re.MULTILINE)


def _file_of(value: object) -> str:
    code = getattr(value, "__code__", None)
    return code.co_filename if code is not None else ""


def test_a_value_shows_itself_on_a_line_without_what_is_not_to_be_seen() -> None:
    """Fields as they are by default say nothing; what holds itself does not go on for ever."""
    assert repr(Ours(1, third="secret", key="k")) == "_Ours(1, 'k')"

    @define
    class Ring:
        next: Any = None

    ring = Ring()
    ring.next = ring
    assert repr(ring) == "Ring(...)"


@frozen(kw_only=True)
class Kept:
    """At the top of a module, where pickle finds it."""

    size: int
    name: str = ""


def test_values_are_copied_and_pickled() -> None:
    """Slots and frozenness stand in nobody's way."""
    value = Kept(size=1, name="a")

    assert pickle.loads(pickle.dumps(value)) == copy.deepcopy(value) == value
    assert attrs.evolve(value, name="b") == Kept(size=1, name="b")

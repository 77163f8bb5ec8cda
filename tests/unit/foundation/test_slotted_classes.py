"""Values with slots are written in the order of their fields, and drafts become values."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import pprint
import weakref
from typing import Any

import attrs
import msgspec
import pytest

from vibe_llms.foundation.slotted_classes import find_copier, find_draft, slotted


def _order(cls: type, fields: list[attrs.Attribute[Any]]) -> list[attrs.Attribute[Any]]:
    return sorted(fields, key=lambda field: field.name != "kind")


@slotted
class Base:
    """Two fields, in another order than that of their names."""

    zeta: int = attrs.field(default=1, kw_only=True)
    content: tuple[str, ...] = ()


@slotted(field_transformer=_order)
class Value(Base):
    """One more field, which is the first."""

    kind: str = attrs.field(default="value", init=False)
    alpha: str = attrs.field(default="a", kw_only=True, eq=False)


def test_fields_are_written_in_their_order_as_those_of_a_base_class_are() -> None:
    assert msgspec.json.encode(Base()) == b'{"zeta":1,"content":[]}'
    assert msgspec.json.encode(Value()) == b'{"kind":"value","zeta":1,"content":[],"alpha":"a"}'
    assert list(msgspec.to_builtins(Value())) == [field.name for field in attrs.fields(Value)]
    (again,) = msgspec.msgpack.decode(msgspec.msgpack.encode([Value()]))
    assert list(again) == list(attrs.fields_dict(Value))


def test_values_have_no_dictionary_and_can_be_copied_and_referred_to() -> None:
    value = Value(("x",), alpha="b")

    assert not hasattr(value, "__dict__")
    assert weakref.ref(value)() is value
    for again in (copy.copy(value), copy.deepcopy(value), pickle.loads(pickle.dumps(value))):
        assert again == value
        assert again.alpha == "b"
    assert attrs.evolve(value, zeta=2).content == ("x",)
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        value.zeta = 3  # type: ignore[misc]
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        del value.zeta


def test_they_are_dataclasses_for_programs_that_ask() -> None:
    value: Any = Value(("x" * 100,))

    assert [field.name for field in dataclasses.fields(value)] == list(attrs.fields_dict(Value))
    assert dataclasses.asdict(value)["content"] == ("x" * 100,)
    assert dataclasses.replace(value, zeta=4) == Value(("x" * 100,), zeta=4)
    assert "Value(" in pprint.pformat(value)


def test_a_draft_with_all_fields_becomes_a_frozen_value() -> None:
    draft = find_draft(Value)()
    draft.kind, draft.zeta, draft.content, draft.alpha = "value", 5, (), "c"
    draft.__class__ = Value

    assert draft == Value(zeta=5)
    assert type(draft) is Value
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        draft.zeta = 6  # type: ignore[misc]
    assert find_draft(Value) is find_draft(Value)


def test_a_copy_has_the_same_fields_but_those_that_are_given() -> None:
    value = Value(("x",), zeta=2, alpha="b")

    again = find_copier(Value)(value, content=None)

    assert type(again) is Value
    assert (again.kind, again.zeta, again.content, again.alpha) == ("value", 2, None, "b")
    with pytest.raises(TypeError):
        find_copier(Value)(value, beta=1)

"""The table that says which key of an attribute file is what."""

from __future__ import annotations

import pytest

from vibe_llms.models.definitions import produce_control
from vibe_llms.models.keys import (
    CAPABILITIES,
    KEYS,
    KEYS_BY_NAME,
    KeyRole,
    classify_key,
    resolve_spelling,
)


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("pattern", KeyRole.METADATA),
        ("temperature", KeyRole.CONTROL),
        ("max_tokens", KeyRole.CONTROL),
        ("supports_images", KeyRole.CAPABILITY),
        ("supports_telepathy", KeyRole.CAPABILITY),
        ("context_window_tokens", KeyRole.ATTRIBUTE),
        ("shoe_size", KeyRole.ATTRIBUTE),
    ],
)
def test_a_key_is_what_the_table_says(name: str, role: KeyRole) -> None:
    """A control's name is its default, ``supports_`` a capability, the rest an attribute."""
    assert classify_key(name) is role


def test_a_control_of_the_data_makes_its_name_a_control() -> None:
    """A plugin's own control is set by a flat key like any other."""
    assert classify_key("warmth", {"warmth"}) is KeyRole.CONTROL


def test_every_control_of_the_table_has_a_definition_that_holds() -> None:
    """A flat default alone is enough for each well-known control."""
    rows = [key for key in KEYS if key.role is KeyRole.CONTROL]

    for row in rows:
        assert produce_control(row.name, row.definition).name == row.name


def test_the_table_names_no_key_twice_and_resolves_other_spellings() -> None:
    """``supports_tools`` is ``supports_invocations``, which is in the table itself."""
    assert len(KEYS_BY_NAME) == len(KEYS)
    assert resolve_spelling("supports_tools") == "supports_invocations"
    assert "supports_tools" not in CAPABILITIES
    assert {key.alias_of for key in KEYS if key.alias_of} <= set(CAPABILITIES)

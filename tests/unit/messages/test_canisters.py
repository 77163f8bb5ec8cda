"""The six kinds of message."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import attrs
import pytest

from vibe_llms.exceptions import ParseError, RequestError
from vibe_llms.messages.canisters import (
    CANISTER_CLASSES,
    AssistantCanister,
    Canister,
    InvocationCanister,
    Owner,
    ResultCanister,
    Usage,
    UserCanister,
)
from vibe_llms.messages.contents import TextualContent


def test_each_role_names_the_class_that_carries_it() -> None:
    """The table from roles to classes agrees with the roles in the classes."""
    for role, cls in CANISTER_CLASSES.items():
        assert attrs.fields(cls).role.default == role


def test_every_canister_is_written_in_one_order() -> None:
    """A line begins with role, timestamp, content and id, whatever the kind."""
    for cls in CANISTER_CLASSES.values():
        names = [field.name for field in attrs.fields(cls)]
        assert names[:4] == ["role", "timestamp", "content", "id"]


def test_a_canister_satisfies_the_protocol() -> None:
    """Code that only reads may rely on the protocol."""
    assert isinstance(UserCanister("hi"), Canister)


def test_a_text_makes_a_canister() -> None:
    """A text becomes one textual content; the id and the moment are made."""
    before = datetime.now(UTC)

    canister = UserCanister("hi")

    assert canister.content == (TextualContent("hi"),)
    assert before <= canister.timestamp <= datetime.now(UTC)
    assert canister.id != UserCanister("hi").id


def test_a_role_cannot_be_chosen() -> None:
    """The class decides the role."""
    with pytest.raises(TypeError):
        UserCanister("hi", role="assistant")  # type: ignore[call-arg]


def test_a_canister_cannot_be_changed() -> None:
    """Canisters are frozen: what was said was said."""
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        UserCanister("hi").id = "other"  # type: ignore[misc]


def test_timestamps_are_kept_in_utc() -> None:
    """Equal moments make equal canisters, whatever zone they were given in."""
    oslo = datetime(2026, 11, 21, 13, tzinfo=timezone(timedelta(hours=1)))
    moment = datetime(2026, 11, 21, 12, tzinfo=UTC)

    canister = AssistantCanister("hi", id="a", timestamp=oslo)

    assert canister.timestamp.tzinfo is UTC
    assert canister == AssistantCanister("hi", id="a", timestamp=moment)


def test_a_timestamp_without_a_zone_is_refused() -> None:
    """A moment that does not say where is none."""
    with pytest.raises(RequestError, match="no time zone"):
        UserCanister("hi", timestamp=datetime(2026, 11, 21))


def test_invocations_are_ours_unless_said_otherwise() -> None:
    """What a model asks for is for us to execute; what the vendor did is marked."""
    assert InvocationCanister(invocation_id="1", name="a").owner is Owner.OURS
    assert ResultCanister(invocation_id="1").owner is Owner.OURS


@pytest.mark.parametrize("text", ["", " \n", "null", '""', "{}"])
def test_a_call_with_nothing_is_a_call_without_arguments(text: str) -> None:
    """However a vendor says nothing, it is valid; the text stays as it came."""
    call = InvocationCanister(invocation_id="1", name="look", arguments=text)

    assert call.fault is None
    assert call.parse_arguments() == {}
    assert call.arguments == text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"a": }', "look are not JSON.*byte 6"),
        ("[1]", "look are list, not an object"),
        ('"{}"', "look are str, not an object"),
        ("[" * 100_000, "look are not JSON"),
    ],
)
def test_arguments_that_are_no_object_are_an_error_that_says_where(text: str, words: str) -> None:
    """The error names the invocable, the rule and the place, and has the text."""
    call = InvocationCanister(invocation_id="1", name="look", arguments=text)

    with pytest.raises(ParseError, match=words) as caught:
        call.parse_arguments()

    assert caught.value.text == text
    assert caught.value.faults == (call.fault,)


def test_free_text_is_no_object() -> None:
    """A custom tool's text has no fault, and is not read as JSON."""
    call = InvocationCanister(invocation_id="1", name="look", arguments="{}", form="text")

    assert call.fault is None
    with pytest.raises(ParseError, match="free text"):
        call.parse_arguments()


def test_usage_adds_up_bucket_by_bucket() -> None:
    """Unknown counts are left out of a sum; a sum of unknowns is unknown."""
    first = Usage(input_tokens=3, cache_read_tokens=2, native="{}")
    second = Usage(input_tokens=4, output_tokens=5)

    total = first + second

    assert total == Usage(input_tokens=7, cache_read_tokens=2, output_tokens=5)
    assert total.total_input_tokens == 9
    assert total.total_output_tokens == 5
    assert Usage().total_input_tokens is None
    assert Usage(reasoning_tokens=0).total_output_tokens == 0

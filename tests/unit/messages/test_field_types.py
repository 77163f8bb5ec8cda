"""Fields hold what their annotations say: what would not read again is refused at once."""

from __future__ import annotations

import enum
from collections.abc import Callable
from datetime import datetime
from typing import Any, cast

import attrs
import pytest

from vibe_llms.exceptions import RequestError
from vibe_llms.messages.canisters import (
    AssistantCanister,
    InvocationCanister,
    Origin,
    Owner,
    ResultCanister,
    StopReason,
    Usage,
    UserCanister,
)
from vibe_llms.messages.codec.canister_lines import decode_canister, encode_canister
from vibe_llms.messages.contents import Citation, ImageContent, ReasoningContent, TextualContent
from vibe_llms.messages.field_types import evolve_unchecked
from vibe_llms.messages.losses import Loss
from vibe_llms.messages.requests import Request, Response, ResponseMetadata

WRONG = cast(Any, 5)
ORIGIN = Origin(provider="p", model="m")


@pytest.mark.parametrize(
    ("make", "path"),
    [
        (
            lambda: InvocationCanister(invocation_id="1", name="f", arguments=cast(Any, {"a": 1})),
            "arguments",
        ),
        (lambda: InvocationCanister(invocation_id="1", name="f", form=cast(Any, "xml")), "form"),
        (lambda: InvocationCanister(invocation_id="1", name="f", owner=cast(Any, "his")), "owner"),
        (lambda: ResultCanister(invocation_id="1", is_error=cast(Any, 1)), "is_error"),
        (lambda: TextualContent(WRONG), "text"),
        (lambda: TextualContent("x", citations=cast(Any, [1])), "citations[0]"),
        (lambda: TextualContent("x", citations=cast(Any, Citation())), "citations"),
        (lambda: TextualContent("x", native=cast(Any, "{}")), "native"),
        (lambda: ReasoningContent(summary=cast(Any, "abc")), "summary"),
        (lambda: ReasoningContent(summary=cast(Any, ["a", 5])), "summary[1]"),
        (lambda: ImageContent(mime_type=WRONG, url="u"), "mime_type"),
        (lambda: ImageContent(mime_type="a/b", data=cast(Any, bytearray(b"x"))), "data"),
        (lambda: UserCanister("x", id=WRONG), "id"),
        (lambda: UserCanister("x", timestamp=cast(Any, "2025-11-15T10:00:00Z")), "timestamp"),
        (lambda: UserCanister("x", timestamp=cast(Any, datetime.min)), "timestamp"),
        (lambda: UserCanister(cast(Any, {"a": 1})), "content[0]"),
        (lambda: AssistantCanister("x", origin=cast(Any, {})), "origin"),
        (lambda: Usage(input_tokens=cast(Any, "x")), "input_tokens"),
        (lambda: Usage(input_tokens=True), "input_tokens"),
        (lambda: Usage(input_tokens=2**65), "input_tokens"),
        (lambda: Origin(provider="p", model="m", stop_reason=cast(Any, "tired")), "stop_reason"),
        (lambda: Loss(kind=cast(Any, "lost"), path="", reason=""), "kind"),
        (
            lambda: ResponseMetadata(origin=ORIGIN, duration_seconds=float("nan")),
            "duration_seconds",
        ),
        (lambda: ResponseMetadata(origin=ORIGIN, first_seconds=10**400), "first_seconds"),
        (lambda: Request(canisters=[UserCanister("x")], model=WRONG), "model"),
        (lambda: Request(canisters=[UserCanister("x")], strict=cast(Any, "no")), "strict"),
        (lambda: Request(canisters=cast(Any, "x")), "canisters"),
        (
            lambda: Request(canisters=[UserCanister("x")], invocables=cast(Any, [{}])),
            "invocables[0]",
        ),
        (lambda: Response(request=WRONG, canisters=(), metadata=WRONG), "request"),
    ],
)
def test_what_would_not_read_again_is_refused(make: Callable[[], object], path: str) -> None:
    """The error names the field in one line, and what to give instead."""
    with pytest.raises(RequestError) as caught:
        make()

    assert caught.value.path == path
    assert caught.value.remedy
    assert "\n" not in str(caught.value)


class _Word(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "something else"


class _Number(enum.IntEnum):
    THREE = 3


def test_subclasses_of_plain_types_become_plain() -> None:
    """They are written as what they hold, and read back equal."""
    usage = Usage(input_tokens=_Number.THREE)
    canister = AssistantCanister(
        [TextualContent(_Word("x")), ReasoningContent(summary=[_Word("s")])],  # type: ignore[arg-type]
        id=_Word("a"),
        origin=Origin(provider=_Word("p"), model="m", usage=usage),
    )

    assert type(usage.input_tokens) is int
    assert type(canister.id) is type(canister.content[0].text) is str  # type: ignore[union-attr]
    assert decode_canister(encode_canister(canister)) == canister
    user = UserCanister("x")
    assert Request(canisters=[user], controls={_Word("k"): _Word("v")}) == (
        Request(canisters=[user], controls={"k": "v"})
    )


def test_a_word_stands_for_the_member_of_its_enumeration() -> None:
    """What is stored as a word may be given as one."""
    origin = Origin(provider="p", model="m", stop_reason=cast(Any, "answered"))
    canister = InvocationCanister(invocation_id="1", name="f", owner=cast(Any, "vendor"))

    assert origin.stop_reason is StopReason.ANSWERED
    assert canister.owner is Owner.VENDOR


@pytest.mark.parametrize(
    "value",
    [
        UserCanister("Hello"),
        InvocationCanister(name="look", invocation_id="1", arguments="{}"),
        Request(canisters=[UserCanister("Hello")], controls={"top_p": 0.5}, strict=True),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_is_renewed_is_what_evolves(value: Any) -> None:
    """The same value, made faster; the old one stays as it is."""
    name = "id" if hasattr(value, "id") else "model"
    before = attrs.asdict(value, recurse=False)

    assert evolve_unchecked(value, **{name: "other"}) == attrs.evolve(value, **{name: "other"})
    assert evolve_unchecked(value) == value
    assert evolve_unchecked(value) is not value
    assert attrs.asdict(value, recurse=False) == before

"""Names that a vendor does not take go as others, and come back as they were given."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.dialects.chat_completions import Quirks
from vibe_llms.dialects.generate_content.quirks import Quirks as GeminiQuirks
from vibe_llms.dialects.messages.quirks import Quirks as MessagesQuirks
from vibe_llms.dialects.ollama_chat.quirks import Quirks as OllamaQuirks
from vibe_llms.dialects.responses.quirks import Quirks as ResponsesQuirks
from vibe_llms.events.stream import (
    ContentDeltaEvent,
    ContentFinishedEvent,
    ContentStartedEvent,
    StreamEvent,
)
from vibe_llms.messages.canisters import InvocationCanister, Owner, ResultCanister, UserCanister
from vibe_llms.messages.descriptions import CHOICES, InvocableDescription
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.requests import Request
from vibe_llms.providers.names import NamingDecoder, apply_aliases, find_aliases

QUIRKS = (Quirks(), ResponsesQuirks(), MessagesQuirks(), GeminiQuirks())
LETTERS = "aZ1_-.:/ é天\0"
NAMES = st.text(LETTERS, min_size=1, max_size=5) | st.text("ab.", min_size=60, max_size=130)
SETS = st.lists(
    NAMES.filter(lambda name: name not in CHOICES and name.strip()), unique=True, max_size=6
)


def describe(name: str) -> InvocableDescription:
    return InvocableDescription(name=name, description="Does it.", schema={"type": "object"})


def call(name: str) -> tuple[InvocationCanister, ResultCanister]:
    """Returns a call that was answered."""
    made = InvocationCanister(invocation_id="c", name=name, arguments="{}")
    return made, ResultCanister("Done.", invocation_id="c", name=name)


def ask(offered: Sequence[str], called: Sequence[str] = (), choice: str = "auto") -> Request:
    return Request(
        canisters=[UserCanister("Well?"), *[each for name in called for each in call(name)]],
        invocables=[describe(name) for name in offered],
        invocation_choice=choice,
    )


def list_names(events: Sequence[StreamEvent]) -> list[str]:
    """Returns what is called, as it begins and as it ends."""
    return [getattr(event, "item", event).name for event in events]


class Calling:
    """A decoder of an answer in which everything is called by the names that it is given."""

    is_complete = True

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names

    def decode(self, data: bytes, event: str = "") -> list[StreamEvent]:
        return [
            ContentStartedEvent(index=index, kind="invocation", name=name, invocation_id="c")
            for index, name in enumerate(self._names)
        ]

    def decode_response(self, body: bytes) -> list[StreamEvent]:
        return [*self.decode(body), *self.finish()]

    def finish(self) -> list[StreamEvent]:
        return [
            ContentFinishedEvent(index=index, item=call(name)[0])
            for index, name in enumerate(self._names)
        ]


def fit(request: Request, quirks: Any) -> Translation[Request]:
    """Returns the request as its vendor gets it."""
    return apply_aliases(request, find_aliases(request, quirks))


@pytest.mark.slow
@pytest.mark.parametrize("quirks", QUIRKS, ids=lambda each: each.__class__.__module__)
@given(offered=SETS, called=SETS)
def test_each_name_goes_as_one_that_is_taken_and_comes_back(
    quirks: Any, offered: list[str], called: list[str]
) -> None:
    """No two go as the same, one that is taken is left alone, and an answer has those given."""
    names = list(dict.fromkeys([*offered, *called]))
    request = ask(offered, called, choice=offered[-1] if offered else "auto")

    fitted = fit(request, quirks)

    sent = [each.name for each in fitted.value.invocables]
    done = [each for each in fitted.value.canisters if not isinstance(each, UserCanister)]
    going = dict(zip([*offered, *called], [*sent, *(each.name for each in done[::2])], strict=True))
    assert all(re.fullmatch(quirks.name_pattern, name) for name in going.values())
    assert len(set(going.values())) == len(names)
    for name, alias in going.items():
        assert (name == alias) is bool(re.fullmatch(quirks.name_pattern, name))
    assert [each.name for each in done[1::2]] == [going[name] for name in called]
    assert fitted.value.invocation_choice == (sent[-1] if offered else "auto")
    assert len(fitted.losses) == sum(name != alias for name, alias in going.items())

    decoder = NamingDecoder(Calling([going[name] for name in names]), find_aliases(request, quirks))
    assert list_names(decoder.decode(b"")) == names
    assert list_names(decoder.finish()) == names
    assert list_names(decoder.decode_response(b"")) == names * 2


@given(offered=SETS, name=NAMES)
def test_what_stands_for_a_name_is_the_same_whatever_else_is_offered(
    offered: list[str], name: str
) -> None:
    """So that the next turn, with other tools, begins with the same bytes."""
    alone = find_aliases(ask([], [name]), Quirks())
    assert alone.items() <= find_aliases(ask(offered, [name]), Quirks()).items()


def test_a_name_goes_as_none_that_another_has() -> None:
    """Be it one that somebody has made up to be taken for it."""
    alias = find_aliases(ask(["a.b"]), Quirks())["a.b"]
    request = ask(["a.b", alias])

    sent = [each.name for each in fit(request, Quirks()).value.invocables]

    assert sent[1] == alias
    assert sent[0] != alias
    again = find_aliases(request, Quirks())
    assert list_names(NamingDecoder(Calling(sent), again).decode(b"")) == ["a.b", alias]


def test_each_change_is_told_once_and_where() -> None:
    """In the description where there is one, however often it was called."""
    losses = fit(ask(["get.sea"], ["get.sea", "old/one", "get.sea"]), Quirks()).losses
    assert [loss.path for loss in losses] == ["invocables[0].name", "canisters[3].name"]
    assert all(loss.kind == "coerced" for loss in losses)
    assert losses[0].reason.startswith("'get.sea' is sent as get_sea_")


def test_names_of_vendors_own_tools_are_the_vendors() -> None:
    """Neither what it has executed nor what it alone knows is called otherwise."""
    made, result = call("its.own")
    theirs = [attrs.evolve(each, owner=Owner.VENDOR) for each in (made, result)]
    request = Request(canisters=[UserCanister("Well?"), *theirs, UserCanister("And?")])
    assert fit(request, Quirks()).value == request

    said = ContentFinishedEvent(index=0, item=theirs[0])  # type: ignore[arg-type]
    event = ContentStartedEvent(index=0, kind="invocation", name="a", owner=Owner.VENDOR)
    others = [said, event, ContentDeltaEvent(0, "a")]
    decoder = NamingDecoder(Calling([]), {"b": "its.own", "c": "a"})
    decoder._decoder.decode_response = lambda body: others  # type: ignore[method-assign]
    assert decoder.decode_response(b"") == others
    assert decoder.is_complete


@pytest.mark.parametrize("quirks", [OllamaQuirks(), None, Quirks(name_pattern=r"[\s\S]+")])
def test_who_takes_any_name_gets_it(quirks: Any) -> None:
    """As Ollama and most servers of one's own do."""
    request = ask(["a.b\n", "天気"], ["x" * 200])
    assert not find_aliases(request, quirks)

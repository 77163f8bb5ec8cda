"""Resources and prompts: addresses with gaps, what functions return, and what cannot be."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.quality.properties import examples
from vibe_llms.exceptions import RequestError
from vibe_llms.invocables import (
    FunctionsEnsemble,
    InvocationContext,
    perform,
    produce_prompt,
    produce_resource,
)
from vibe_llms.invocables.ensembles import Ensemble, Library
from vibe_llms.invocables.invokers import Invoker
from vibe_llms.invocables.libraries import COMPLETIONS, Completion, match_address
from vibe_llms.invocables.outcomes import Outcome
from vibe_llms.messages.canisters import AssistantCanister, UserCanister
from vibe_llms.messages.contents import ImageContent, TextualContent

LITERALS = st.sampled_from(["", "notes://", "/", "/by/", ".txt", "?of=", "x"])
VALUES = st.text(min_size=1, max_size=8)


@given(LITERALS, st.lists(st.tuples(VALUES, st.sampled_from(["/", "/by/", "?of="])), max_size=4))
@examples(200)
def test_what_was_filled_in_is_found_again(first: str, gaps: list[tuple[str, str]]) -> None:
    """Of gaps that something stands between which the values cannot hold."""
    template = address = first
    for number, (value, literal) in enumerate(gaps):
        template += f"{{gap_{number}}}{literal}"
        address += quote(value, safe="") + literal

    expected = {f"gap_{number}": value for number, (value, _) in enumerate(gaps)}
    assert match_address(template, address) == expected
    assert match_address(template, address + "#") is None


@pytest.mark.parametrize(
    ("template", "address", "expected"),
    [
        ("a:b", "a:b", {}),
        ("a:b", "a:bc", None),
        ("a:{x}", "a:", None),
        ("a:{x}", "a:b/c", None),
        ("a:{+x}", "a:b/c", {"x": "b/c"}),
        ("a:{+x}.txt", "a:b.txt.txt", {"x": "b.txt"}),
        ("a:{x}{?q,r}", "a:b", {"x": "b"}),
        ("a:{x}", "a:" + "b" * 9_000, None),
        ("{+a}{+b}{+c}{+d}!", "x" * 8_000, None),  # what a pattern would take for ever over
    ],
)
def test_addresses_with_gaps(template: str, address: str, expected: object) -> None:
    """What a template stands for."""
    assert match_address(template, address) == expected


async def bring(invoker: Invoker, **arguments: Any) -> Outcome:
    return await perform(invoker, arguments, InvocationContext())


async def test_a_resource_is_read_whole_or_not_at_all() -> None:
    """A text, or bytes of its kind; where it is longer than it may be, nothing says it is whole."""

    def note(name: str) -> str:
        """A note."""
        return name * 2

    def picture() -> bytes:
        """A picture."""
        return b"PNG"

    notes = produce_resource("notes://{name}", note, output_limit_characters=6)
    assert notes.is_template
    arguments = notes.match("notes://a%20b")
    assert arguments == {"name": "a b"}
    whole = await bring(notes.reader, **arguments)
    assert (whole.text, whole.source) == ("a ba b", whole.contents)
    cut = await bring(notes.reader, name="abcd")
    assert cut.source is None

    seen = await bring(produce_resource("p:", picture, mime_type="image/png").reader)
    assert seen.contents == (ImageContent(mime_type="image/png", data=b"PNG"),)


@pytest.mark.parametrize("uri", ["notes://", "notes://{other}", "notes://{name}/{more}", "{?name}"])
def test_gaps_are_the_parameters(uri: str) -> None:
    """Neither more nor less, and of a form that can be filled."""

    def note(name: str) -> str:
        """A note."""
        return name

    with pytest.raises(RequestError, match="differ from the parameters of 'note'"):
        produce_resource(uri, note)


async def test_a_prompt_is_what_a_user_says_or_a_whole_conversation() -> None:
    """A text is one message; canisters keep who says what."""

    def greet(name: str) -> str:
        """Greets."""
        return f"Greet {name}."

    def begin() -> list[Any]:
        """Begins."""
        return [UserCanister("Hello"), AssistantCanister("Hi")]

    (said,) = (await bring(produce_prompt(greet).writer, name="Ada")).source  # type: ignore[misc]
    assert (said.role, said.content) == ("user", (TextualContent("Greet Ada."),))
    begun: Any = (await bring(produce_prompt(begin).writer)).source
    assert [each.role for each in begun] == ["user", "assistant"]


async def test_suggestions_are_bounded_and_counted() -> None:
    """Of more than can be told at once the first are, and how many there are."""

    def greet(name: str) -> str:
        """Greets."""
        return name

    async def complete(argument: str, value: str, others: Any) -> Any:
        if value == "some":
            return Completion(("a",), 7)
        return [f"{argument}{number}{others['to']}" for number in range(150)]

    prompt = produce_prompt(greet, complete=complete)
    assert prompt.completer is not None
    asked = {"argument": "name", "value": "", "others": {"to": "!"}}
    said: Any = (await bring(prompt.completer, **asked)).source
    assert (said.values[-1], len(said.values), said.total) == ("name99!", COMPLETIONS, 150)
    some: Any = (await bring(prompt.completer, **asked | {"value": "some"})).source
    assert some == Completion(("a",), 7)


def test_functions_are_a_library_and_other_ensembles_need_not_be() -> None:
    """What has no resources says nothing of them."""

    class Bare:
        name = "bare"

        async def connect(self) -> None: ...
        async def disconnect(self) -> None: ...
        async def survey(self) -> list[Invoker]:
            return []

        def listen(self, listener: Any) -> None: ...

    assert isinstance(FunctionsEnsemble("functions"), Library)
    assert isinstance(Bare(), Ensemble)
    assert not isinstance(Bare(), Library)

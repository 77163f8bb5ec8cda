"""Requests that differ in their words are filled in, and are what would be translated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fidelity.parties import PARTIES, Party
from strategies.messages import canisters as any_canisters
from strategies.messages import textual_contents
from support.vendors.remoting import produce_context
from vibe_llms.dialects.processors import FunctionProcessor, Processors
from vibe_llms.exceptions import RequestError
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.canisters import AnyCanister, SupervisorCanister, UserCanister
from vibe_llms.messages.contents import Citation, Native, TextualContent
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.messages.losses import Translation
from vibe_llms.messages.requests import Request
from vibe_llms.providers import request_templates
from vibe_llms.providers.interfaces import ModelDescriptor
from vibe_llms.providers.ollama.client import OllamaVendor
from vibe_llms.providers.openai_conversations.client import OpenAIVendor
from vibe_llms.providers.remote import RemoteProvider
from vibe_llms.providers.remote_clients import RemoteClient
from vibe_llms.providers.remote_models import RemoteModel
from vibe_llms.providers.request_templates import RequestTemplates
from vibe_llms.providers.vendors import Vendor

each_party = pytest.mark.parametrize("party", PARTIES, ids=lambda party: party.name)
ODD = ["", " ", "\n", "\u2028", "\0", "json", "<think>", "{{x}}", '"\\', "/no_think", "é" * 300]
texts = st.sampled_from(ODD) | st.text(max_size=20)


@attrs.define
class Translator:
    """Translates as a vendor of the party does, and counts how often."""

    party: Party
    count: int = 0

    def __call__(self, request: Request, streaming: bool) -> Translation[JsonObject]:
        self.count += 1
        translation: Translation[JsonObject] = self.party.dialect.nativize_request(
            request,
            self.party.attributes,
            self.party.quirks,
            provider=self.party.name,
            streaming=streaming,
        )
        return translation


def write(translate: Any, request: Request, streaming: bool) -> object:
    """Returns the bytes that are written and what is lost, or the error."""
    try:
        translation = translate(request, streaming)
    except RequestError as error:
        return str(error)
    return msgspec.json.encode(translation.value), translation.losses


def produce_requests(party: Party) -> st.SearchStrategy[Request]:
    """Draws requests that are as most are, or nearly so."""
    controls = {each.name for each in party.attributes.controls}
    said = textual_contents | texts
    prompts = st.tuples(st.builds(UserCanister, said))
    led = st.tuples(st.builds(SupervisorCanister, said), st.builds(UserCanister, said))
    plain = st.tuples(st.builds(UserCanister, texts)) | st.tuples(
        st.builds(SupervisorCanister, texts), st.builds(UserCanister, texts)
    )
    odd = st.tuples(any_canisters, st.builds(UserCanister, said))
    values = st.sampled_from([0, 1, True, 0.5]) if "temperature" in controls else st.none()
    return st.builds(
        lambda canisters, value: Request(
            canisters=canisters, controls={} if value is None else {"temperature": value}
        ),
        plain | plain | led | prompts | odd,
        st.none() | values,
    )


def produce_filler(party: Party) -> RequestTemplates:
    """Make templates that already know the common kinds."""
    filler = RequestTemplates(Translator(party))
    for words in ("one", "two", "three"):
        for canisters in (
            [UserCanister(words)],
            [SupervisorCanister(words), UserCanister(words)],
        ):
            for streaming in (True, False):
                filler.nativize(Request(canisters=canisters), streaming)
    return filler


@pytest.mark.slow
@each_party
@given(data=st.data())
def test_what_is_filled_in_is_what_would_be_translated(party: Party, data: st.DataObject) -> None:
    """Whatever was asked before, and however."""
    filler = produce_filler(party)

    for request in data.draw(st.lists(produce_requests(party), min_size=3, max_size=12)):
        streaming = data.draw(st.booleans())
        expected = write(Translator(party), request, streaming)
        assert write(filler.nativize, request, streaming) == expected


@each_party
@pytest.mark.parametrize("streaming", [True, False])
def test_a_third_request_of_a_kind_is_not_translated(party: Party, streaming: bool) -> None:
    """The first is; so is the second, twice: once with marks."""
    translator = Translator(party)
    filler = RequestTemplates(translator)

    for number in range(5):
        canisters = [SupervisorCanister(f"Be {number}."), UserCanister(f"What is {number}?")]
        request = Request(canisters=canisters)
        filled = filler.nativize(request, streaming)
        assert f"What is {number}?" in str(filled.value)
        assert filled == Translator(party)(request, streaming)

    assert translator.count == 3


CITED = TextualContent("Hello", citations=[Citation(start=0, end=2, title="A book")])
SPECIAL = [
    CITED,
    TextualContent("# Hello", mime_type="text/markdown"),
    *(
        TextualContent("Hello", native=Native(protocol=protocol, data='{"cache_control":{"n":1}}'))
        for protocol in sorted({party.protocol for party in PARTIES})
    ),
]


@pytest.mark.slow
@each_party
@pytest.mark.parametrize("said", [*ODD, *SPECIAL], ids=range(len(ODD) + len(SPECIAL)))
def test_odd_words_go_as_ever(party: Party, said: str | TextualContent) -> None:
    """Those that are blank, and those that are more than words."""
    filler = produce_filler(party)

    native = Native(protocol=party.protocol, data='{"name":"Ada","$id":"x"}')
    for canisters in (
        [UserCanister(said)],
        [UserCanister(said, native=native)],
        [SupervisorCanister(said), UserCanister("Hello")],
        [SupervisorCanister("Be kind."), UserCanister(said)],
    ):
        request = Request(canisters=canisters)
        expected = write(Translator(party), request, False)
        assert write(filler.nativize, request, False) == expected


def test_what_python_holds_for_equal_is_not_filled_in() -> None:
    """``True`` and ``1`` are told apart, and a vendor gets what was asked for."""

    def translate(request: Request, streaming: bool) -> Translation[JsonObject]:
        (words,) = request.canisters[0].content
        return Translation({**request.controls, "words": words.text})  # type: ignore[union-attr]

    filler = RequestTemplates(translate)
    for value in (1, 1, True, 1, True, 1, True):
        request = Request(canisters=[UserCanister("Hello")], controls={"seed": value})
        assert filler.nativize(request, False).value["seed"] is value


@pytest.mark.parametrize(
    "write_words",
    [
        lambda words: {"words": words, "again": words},
        lambda words: {"words": f"{words}."},
        lambda words: {words: words},
        lambda words: {"words": words, "size": len(words)},
        lambda words: {},
    ],
    ids=["twice", "within", "name", "size", "nowhere"],
)
def test_where_words_are_not_found_once_all_is_translated(write_words: Any) -> None:
    """Or where they decide more."""

    def translate(request: Request, streaming: bool) -> Translation[JsonObject]:
        (words,) = request.canisters[0].content
        return Translation(write_words(words.text))  # type: ignore[union-attr]

    filler = RequestTemplates(translate)
    for words in ("a", "bc", "d", "e"):
        request = Request(canisters=[UserCanister(words)])
        assert filler.nativize(request, False).value == write_words(words)


def test_what_was_filled_in_before_stays_as_it_is() -> None:
    """Both requests may be on their way at once."""
    filler = RequestTemplates(Translator(PARTIES[0]))
    bodies = [
        filler.nativize(Request(canisters=[UserCanister(word)]), False).value
        for word in ("one", "two", "three", "four")
    ]
    for word, body in zip(("one", "two", "three", "four"), bodies, strict=True):
        assert word in str(body["messages"])


@pytest.mark.parametrize(
    "changes",
    [
        {"schema": {"type": "object"}},
        {"native": Native(protocol="", data='{"n":1}')},
        {"invocables": [InvocableDescription(name="look", description="Looks.", schema=None)]},
        {"invocation_choice": "none"},
        {"continuation": True},
        {"canisters": [UserCanister("a"), UserCanister("b")]},
        {"canisters": [UserCanister(["a", "b"])]},
    ],
    ids=["schema", "native", "invocables", "choice", "continuation", "canisters", "contents"],
)
def test_whatever_is_unusual_is_translated(changes: Any) -> None:
    """As it always was."""
    request = attrs.evolve(Request(canisters=[UserCanister("Hello")]), **changes)

    assert request_templates.read_texts(request) is None


def test_many_kinds_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """A seed that is another one each time fills no memory."""
    monkeypatch.setattr(request_templates, "MAX_TEMPLATES", 4)
    filler = RequestTemplates(Translator(PARTIES[0]))

    for number in [*range(9), 8, 8]:
        request = Request(canisters=[UserCanister("Hello")], controls={"max_tokens": number + 1})
        filler.nativize(request, False)
        assert len(filler._seen) <= 4

    assert len(filler._templates) == 1


def shout(request: Request, model: ModelDescriptor) -> Translation[JsonObject]:
    """Lets the words decide a control, as nobody who is verbatim does."""
    last: AnyCanister = request.canisters[-1]
    return Translation({"temperature": 1.0 if "!" in str(last.content) else 0.0})


class Stranger(OpenAIVendor):
    """A vendor of a plugin with a processor of its own."""

    def produce_processors(self, client: RemoteClient) -> Processors:
        processors = super().produce_processors(client)
        own: Any = FunctionProcessor(shout, processors.controls.normalize)
        return attrs.evolve(processors, controls=own)


async def access_model(vendor: type[Vendor], name: str, directory: Path) -> RemoteModel:
    context = produce_context(name, directory, api_key="key")
    return await RemoteProvider(context, vendor).produce_client().access_model("m")


async def test_a_strangers_processor_is_asked_each_time(tmp_path: Path) -> None:
    """It may look at the words."""
    model = await access_model(Stranger, "openai_conversations", tmp_path)

    for words in ("a", "b", "c", "d!", "e", "f!"):
        request = Request(canisters=[UserCanister(words)])
        value = model.nativize(request, streaming=False).value
        assert value["temperature"] == float("!" in words)


async def test_a_vendor_that_composes_the_body_itself_is_asked_each_time(tmp_path: Path) -> None:
    """Ollama is told of a window into which the words fit."""
    model = await access_model(OllamaVendor, "ollama", tmp_path)

    windows = [
        model.nativize(Request(canisters=[UserCanister(word)]), streaming=False).value["options"]
        for word in ("a", "b", "c", "long " * 5_000)
    ]
    assert windows[0] == windows[2] != windows[3]

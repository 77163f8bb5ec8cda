"""What a request comes to at most is read from it, whatever its protocol, and never too low."""

from __future__ import annotations

import base64
import json
from decimal import Decimal
from typing import Any, cast

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.daemons.gateway.client_requests import ClientRequest
from vibe_llms.daemons.gateway.estimating import estimate, price_in_cents
from vibe_llms.daemons.gateway.upstreams import Upstream
from vibe_llms.foundation.forms import FormFile
from vibe_llms.messages.canisters import Usage
from vibe_llms.models.catalogue import Catalogue
from vibe_llms.models.descriptors import ModelDescriptor
from vibe_llms.models.genera import Genus


@attrs.frozen
class Answerer:
    """A model that nobody asks."""

    descriptor: ModelDescriptor


def produce_upstream(provider: str = "openai_responses", model: str = "gpt-5.5") -> Upstream:
    attributes = Catalogue(providers=(provider,)).access_integrator(provider).integrate(model)
    descriptor = ModelDescriptor(provider=provider, name=model, attributes=attributes)
    return Upstream(cast(Any, Answerer(descriptor)))


def ask(body: Any) -> ClientRequest:
    return ClientRequest(body=json.dumps(body).encode(), model="any", streaming=False)


@pytest.mark.parametrize(
    ("body", "tokens"),
    [
        ({}, None),
        ({"max_tokens": 7}, 7),
        ({"max_completion_tokens": 8, "max_tokens": 7}, 8),
        ({"max_completion_tokens": 8, "n": 3}, 24),
        ({"max_output_tokens": 9}, 9),
        ({"generationConfig": {"maxOutputTokens": 10}}, 10),
        ({"generationConfig": {"maxOutputTokens": 10, "candidateCount": 2}}, 20),
        ({"options": {"num_predict": 11}}, 11),
        ({"options": {"num_predict": -1}}, None),
        ({"version": 1, "request": {"controls": {"max_tokens": 12}}}, 12),
        ({"request": 3}, None),
        ({"max_tokens": "many"}, None),
        ({"max_tokens": True}, None),
        ({"options": 3}, None),
        ([], None),
    ],
)
def test_the_bound_of_an_answer_is_read_wherever_it_stands(body: Any, tokens: int | None) -> None:
    """Of each protocol; what makes no sense is for whoever answers."""
    assert estimate(ask(body), produce_upstream()).output_tokens == tokens


@given(
    text=st.text(min_size=1, max_size=300),
    input_tokens=st.integers(0, 100),
    cached=st.integers(0, 100),
    output=st.integers(0, 500),
)
def test_what_is_used_within_the_bounds_never_costs_more(
    text: str, input_tokens: int, cached: int, output: int
) -> None:
    """However the vendor divides it: cached tokens are dearer to write than plain ones."""
    upstream = produce_upstream("anthropic", "claude-sonnet-4-5")
    demand = estimate(ask({"max_tokens": 500, "messages": [text]}), upstream)
    plain = min(input_tokens, demand.input_tokens)
    usage = Usage(
        input_tokens=plain,
        cache_write_long_tokens=min(cached, demand.input_tokens - plain),
        output_tokens=output,
    )

    cost = price_in_cents(usage, upstream.model.descriptor)

    assert demand.cents is not None
    assert cost is not None
    assert cost <= demand.cents


def show(begin: bytes, size: int) -> str:
    return base64.b64encode(begin + bytes(size)).decode()


PNG = show(b"\x89PNG\r\n\x1a\n", 900_000)
PNG_URL = "data:image/png;base64," + PNG


def place_alike(data: str, mime_type: str = "image/png", kind: str = "base64") -> dict[str, Any]:
    """Makes a message with a picture as Anthropic has them."""
    source = {"type": kind, "media_type": mime_type, "data": data}
    return {"messages": [{"role": "user", "content": [{"type": "image", "source": source}]}]}


@pytest.mark.parametrize(
    ("shown", "is_picture"),
    [
        (show(b"\xff\xd8\xff\xe0", 900_000), True),
        (show(b"GIF89a", 900_000), True),
        (show(b"RIFF\x01\x02\x03\x04WEBPVP8 ", 900_000), True),
        (show(b"RIFF\x01\x02\x03\x04WAVEfmt ", 900_000), False),
        (show(b"%PDF-1.7", 900_000), False),
        ("a sea of words " * 80_000, False),
        ("iVBORw0KGgo a sea of words " * 50_000, False),
    ],
    ids=["JPEG", "GIF", "WebP", "WAVE", "PDF", "words", "words like a PNG"],
)
def test_a_picture_is_not_counted_by_its_bytes(shown: str, is_picture: bool) -> None:
    """Sound, documents and words are: of these, few bytes may come to many tokens."""
    counted = estimate(ask({"images": [shown]}), produce_upstream()).input_tokens

    assert (counted < 7_000) is is_picture
    assert is_picture or counted > 500_000


SOURCE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
INLINE = {"inlineData": {"mimeType": "image/png", "data": PNG}}


@pytest.mark.slow
@pytest.mark.parametrize(
    "body",
    [
        {"messages": [{"content": [{"type": "image_url", "image_url": {"url": PNG_URL}}]}]},
        {"input": [{"content": [{"type": "input_image", "image_url": PNG_URL}]}]},
        {"input": [{"output": {"type": "computer_screenshot", "image_url": PNG_URL}}]},
        {"input": [{"output": [{"type": "input_image", "image_url": PNG_URL}]}]},
        {"input": [{"type": "image_generation_call", "result": PNG}]},
        {"messages": [{"content": [SOURCE]}]},
        {"messages": [{"content": [{"type": "tool_result", "content": [SOURCE]}]}]},
        {"contents": [{"parts": [{"text": "What is it?"}, INLINE]}]},
        {"contents": [{"parts": [{"inline_data": {"data": PNG, "mime_type": "image/png"}}]}]},
        {"contents": [{"parts": [{"functionResponse": {"name": "see", "parts": [INLINE]}}]}]},
        {"messages": [{"role": "user", "content": "What is it?", "images": [PNG]}]},
        {"prompt": "What is it?", "images": [PNG]},
        {"request": {"canisters": [{"content": [{"mime_type": "image/png", "data": PNG}]}]}},
    ],
)
def test_a_picture_counts_as_one_in_every_protocol(body: dict[str, Any]) -> None:
    said = {"model": "m", "tools": [{"name": 'a "quoted" {'}], **body, "stream": True}

    assert 6_000 <= estimate(ask(said), produce_upstream()).input_tokens < 7_000


@pytest.mark.slow
@pytest.mark.parametrize(
    "body",
    [
        {"messages": [{"role": "user", "content": PNG}]},
        {"messages": [{"role": "user", "content": PNG_URL}]},
        {"messages": [{"content": [{"type": "text", "text": PNG_URL}]}]},
        {"messages": [{"content": json.dumps(place_alike(PNG))}]},
        {"messages": [{"content": [{"type": "tool_use", "input": place_alike(PNG)}]}]},
        {"messages": [{"content": [{"type": "tool_use", "input": SOURCE}]}]},
        {"tools": [{"input_schema": {"default": SOURCE, "images": [PNG]}}]},
        {"system": PNG},
        {"input": PNG},
        {"input": [{"type": "function_call_output", "output": PNG}]},
        {"input": [{"type": "mcp_call", "result": PNG}]},
        {"contents": [{"parts": [{"text": PNG}, {"functionCall": {"args": INLINE}}]}]},
        {"prompt": PNG, "images": []},
        {"request": {"canisters": [{"content": [{"type": "text", "text": PNG}]}]}},
        place_alike(PNG, "text/plain", "text"),
        place_alike(PNG, "image/png", "text"),
        place_alike(show(b"GIF89a", 900_000), "text/plain"),
        {"contents": [{"parts": [{"inlineData": {"mimeType": "text/plain", "data": PNG}}]}]},
        {"contents": [{"parts": [{"inlineData": {"data": PNG}}]}]},
    ],
)
def test_words_that_begin_like_a_picture_are_words(body: dict[str, Any]) -> None:
    """Else a key sends millions of tokens at once, each time within its bounds."""
    assert estimate(ask(body), produce_upstream()).input_tokens > 500_000


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b'"media_type": "image/png"', b'"media_type": "image/png", "media_type": "text/plain"'),
        (b'"media_type": "image/png"', rb'"media_type": "image/png", "media\u005ftype": "x"'),
        (b'"type": "base64"', rb'"type": "base64", "type": "t\u0065xt"'),
        (b'{"messages"', b'{"tools": [' + b"[]," * 210_000 + b'[]], "messages"'),
        (b'{"messages"', b'] {"messages"'),
        (b'{"messages"', b'{"tools": ' + b"[" * 100_000 + b"]" * 100_000 + b', "messages"'),
    ],
    ids=["twice", "twice, escaped", "type escaped", "among many", "no JSON", "deep"],
)
def test_what_is_not_certainly_a_picture_is_none(before: bytes, after: bytes) -> None:
    """Of two fields of one name either may count; and what is looked at has an end."""
    body = ask(place_alike(PNG)).body
    assert body.count(before) == 1
    asked = ClientRequest(body=body.replace(before, after), model="m", streaming=False)

    assert estimate(asked, produce_upstream()).input_tokens > 500_000


def test_pictures_are_found_however_they_are_written() -> None:
    """Slashes may be escaped, and there may be several."""
    shown = show(b"\xff\xd8\xff\xe0", 90_000)
    body = json.dumps({"images": [shown, shown, "A sea."]}).replace("/", "\\/").encode()

    counted = estimate(ClientRequest(body=body, model="m", streaming=False), produce_upstream())

    assert 12_000 <= counted.input_tokens < 13_000


def test_the_place_of_a_picture_may_be_spelled_in_any_way() -> None:
    body = ask(place_alike(PNG)).body.replace(b'"source"', rb'"s\u006furce"')

    counted = estimate(ClientRequest(body=body, model="m", streaming=False), produce_upstream())

    assert 6_000 <= counted.input_tokens < 7_000


def test_small_pictures_count_as_they_are() -> None:
    body = {"images": [show(b"\x89PNG\r\n\x1a\n", 30)] * 20}
    asked = ask(body)

    assert estimate(asked, produce_upstream()).input_tokens == len(asked.body) // 2 + 1


def test_without_a_bound_the_models_own_holds() -> None:
    """As far as it is known."""
    bounded = estimate(ask({"max_tokens": 128_000}), produce_upstream()).cents
    unbounded = estimate(ask({"max_tokenz": 128_000}), produce_upstream())

    assert (unbounded.output_tokens, unbounded.cents) == (None, bounded)


def test_our_own_machines_cost_nothing_and_others_what_is_known() -> None:
    """What nobody knows is not nothing."""
    own, strange = produce_upstream("scripted", "echo"), produce_upstream("openai", "unheard-of")

    assert estimate(ask({}), own).cents == 0
    assert price_in_cents(None, own.model.descriptor) == 0
    assert estimate(ask({"max_tokens": 1}), strange).cents is None
    usage = Usage(input_tokens=1, output_tokens=1)
    assert price_in_cents(usage, strange.model.descriptor) is None
    priced = price_in_cents(usage, produce_upstream().model.descriptor)
    assert isinstance(priced, Decimal)


@pytest.mark.parametrize("origin", ["openai_responses:gpt-5.5", "anthropic:claude-sonnet-5"])
def test_a_model_of_another_gateway_has_the_prices_of_whoever_that_is(origin: str) -> None:
    usage = Usage(input_tokens=1_000, output_tokens=1_000)
    provider, _, name = origin.partition(":")
    there = produce_upstream(provider, name)
    descriptor = attrs.evolve(there.model.descriptor, provider="remote", name="x", origin=origin)
    here = Upstream(cast(Any, Answerer(descriptor)))
    body = {"max_tokens": 100}

    assert price_in_cents(usage, descriptor) == price_in_cents(usage, there.model.descriptor)
    assert price_in_cents(usage, descriptor) is not None
    assert estimate(ask(body), here).cents == estimate(ask(body), there).cents is not None
    assert price_in_cents(usage, attrs.evolve(descriptor, origin="ollama:llama3.2")) == 0


def produce_form(**fields: Any) -> ClientRequest:
    """Create the request of a form."""
    return ClientRequest(body=b"", model="any", streaming=False, fields=list(fields.items()))


@pytest.mark.parametrize(
    ("genus", "model", "request_", "tokens"),
    [
        (Genus.EMBEDDER, "text-embedding-3-small", ask({"input": "a text"}), 0),
        (Genus.ILLUSTRATOR, "gpt-image-2", ask({"prompt": "A house"}), 8_192),
        (Genus.ILLUSTRATOR, "gpt-image-2", ask({"prompt": "A house", "n": 3}), 3 * 8_192),
        (Genus.ILLUSTRATOR, "gpt-image-2", produce_form(prompt="A house", n="2"), 2 * 8_192),
        (Genus.ILLUSTRATOR, "gpt-image-2", produce_form(n="9" * 5_000), 8_192),
        (Genus.SPEAKER, "gpt-4o-mini-tts", ask({"input": "A"}), 3 * len('{"input": "A"}')),
        (
            Genus.TRANSCRIBER,
            "gpt-4o-transcribe",
            produce_form(file=FormFile(b"x" * 1_000, media_type="audio/mpeg")),
            11,
        ),
    ],
)
def test_a_call_of_another_genus_has_a_bound_and_a_price(
    genus: Genus, model: str, request_: ClientRequest, tokens: int
) -> None:
    """A key with a budget can use them: their output has no limit that a client could set."""
    demand = estimate(request_, produce_upstream(model=model), genus)
    assert demand.output_tokens == tokens
    assert demand.cents
    used = Usage(input_tokens=demand.input_tokens, output_tokens=tokens or None)
    spent = price_in_cents(used, produce_upstream(model=model).model.descriptor)
    assert spent is not None
    assert spent <= demand.cents


def test_an_unknown_price_of_a_call_stays_unknown() -> None:
    upstream = produce_upstream(model="omni-moderation-latest")
    assert estimate(ask({"input": "a"}), upstream, Genus.MODERATOR).cents is None

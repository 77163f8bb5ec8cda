"""Any data of the other side become events or one of our errors, and any data of a client a request
or an error.
"""

from __future__ import annotations

import contextlib
import copy
import json
from collections.abc import Iterator
from typing import Any

import attrs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies.answers import answers, questions
from strategies.messages import errors, json_values
from vibe_llms.dialects import converse
from vibe_llms.exceptions import ConverseError, RequestError
from vibe_llms.messages.canisters import UserCanister
from vibe_llms.messages.requests import Request, Response
from vibe_llms.models.addresses import ModelAddress
from vibe_llms.models.attributes import ModelAttributes
from vibe_llms.models.catalogue import Catalogue
from vibe_llms.models.descriptors import ModelDescriptor
from vibe_llms.models.genera import Genus
from vibe_llms.providers.gateway.learning import compose_rules, summarize
from vibe_llms.providers.gateway.relaying import RelayedAssembler
from vibe_llms.providers.surveys import has_valid_fields

REQUEST = Request(canisters=[UserCanister("?")])
REMOTE_MODEL = ModelAttributes(
    address=ModelAddress("remote", "far:model"),
    genus=Genus.CONVERSER,
    controls=(),
    traced_values=(),
)


def alter(draw: st.DataObject, tree: Any) -> Any:
    """Return the data with one value replaced or removed."""
    tree = copy.deepcopy(tree)
    places = list(_survey(tree))
    holder, key = draw.draw(st.sampled_from(places))
    if isinstance(holder, dict) and draw.draw(st.booleans()):
        del holder[key]
    else:
        holder[key] = draw.draw(json_values)
    return tree


def _survey(tree: Any) -> Iterator[tuple[Any, Any]]:
    pairs = tree.items() if isinstance(tree, dict) else enumerate(tree)
    for key, value in list(pairs):
        yield tree, key
        if isinstance(value, dict | list):
            yield from _survey(value)


@pytest.mark.slow
@given(response=answers, data=st.data())
def test_a_complete_answer_with_any_value(response: Response, data: st.DataObject) -> None:
    """It is read, or rejected as invalid."""
    body = json.loads(msgspec.json.encode(converse.nativize_response(response).value))
    decoder = converse.Decoder(provider="remote", request=REQUEST)
    assembler = RelayedAssembler("far:model", "remote")

    with contextlib.suppress(ConverseError):
        for event in decoder.decode_response(msgspec.json.encode(alter(data, body))):
            assembler.feed(event)


@pytest.mark.slow
@given(response=answers, data=st.data())
def test_a_stream_with_any_value(response: Response, data: st.DataObject) -> None:
    """Each event is read, or rejected as invalid."""
    body = msgspec.json.encode(converse.nativize_response(response).value)
    events = converse.Decoder(provider="remote", request=REQUEST).decode_response(body)
    writer = converse.StreamWriter({})
    result = [*events[:-1], attrs.evolve(events[-1], response=response)]
    frames = b"".join(map(writer.write, result)).split(b"\n\n")[:-1]
    spoiled = data.draw(st.integers(0, len(frames) - 1))
    decoder = converse.Decoder(provider="remote", request=REQUEST)
    assembler = RelayedAssembler("far:model", "remote")

    with contextlib.suppress(ConverseError):
        for place, frame in enumerate(frames):
            name, _, text = frame.partition(b"\ndata: ")
            line = text
            if place == spoiled:
                line = msgspec.json.encode(alter(data, json.loads(text)))
            for event in decoder.decode(line, name.removeprefix(b"event: ").decode()):
                assembler.feed(event)
        decoder.finish()


@pytest.mark.slow
@given(request=questions, data=st.data())
def test_a_request_with_any_value(request: Request, data: st.DataObject) -> None:
    """It is read, or rejected as an error of the client."""
    body = json.loads(msgspec.json.encode(converse.nativize_request(request, REMOTE_MODEL).value))

    with contextlib.suppress(RequestError):
        converse.normalize_request(alter(data, body))


@given(error=errors, data=st.data())
def test_an_error_with_any_value(error: ConverseError, data: st.DataObject) -> None:
    """It always becomes one of our errors."""
    body = json.loads(msgspec.json.encode(converse.nativize_error(error).body))

    result = converse.produce_error(alter(data, body), provider="remote", status=500)

    assert isinstance(result, ConverseError)
    assert str(result)


@pytest.mark.slow
@given(data=st.data())
def test_models_with_any_value(data: st.DataObject) -> None:
    """They can be listed and merged with our own data, or are rejected."""
    integrator = Catalogue().access_integrator("anthropic")
    attributes = integrator.integrate("claude-sonnet-4-6")
    model = ModelDescriptor(provider="anthropic", name="claude-sonnet-4-6", attributes=attributes)
    body = json.loads(msgspec.json.encode(converse.nativize_models({"a": model})))

    with contextlib.suppress(ConverseError):
        for result in converse.normalize_models(alter(data, body), "remote"):
            assert all(map(has_valid_fields, summarize([result])))
            ours = Catalogue().access_integrator("remote")
            rules = (*ours.rules, *compose_rules(result, "x", "remote"))
            attrs.evolve(ours, rules=rules).integrate("x").explain()


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"null", b"\xff", b'{"version":1}', b"[" * 9999], ids=len
)
def test_invalid_bytes(body: bytes) -> None:
    """One of our errors, as a complete body or as a frame."""
    for event in ("", "converse", "content.delta", "response.finished"):
        decoder = converse.Decoder(provider="remote", request=REQUEST)
        decoder.decode(b'{"version":1}', "converse")
        with pytest.raises(ConverseError):
            read(decoder, body, event)
    with pytest.raises(ConverseError):
        converse.Decoder(provider="remote", request=REQUEST).decode_response(body)


def read(decoder: converse.Decoder, data: bytes, event: str) -> None:
    """Read a frame, and the end of its stream."""
    decoder.decode(data, event)
    decoder.finish()

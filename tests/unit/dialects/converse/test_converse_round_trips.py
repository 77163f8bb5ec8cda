"""Requests, answers, errors and lists of models pass between two vibe-llms unchanged."""

from __future__ import annotations

import json
from typing import Any

import attrs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies.answers import answers, questions, reduce_origin
from strategies.messages import errors_of, survey_error_classes
from vibe_llms.dialects import converse, messages
from vibe_llms.events.stream import (
    ContentDeltaEvent,
    ContentFinishedEvent,
    ContentStartedEvent,
    LossEvent,
    ResponseFailedEvent,
    ResponseFinishedEvent,
    RetryEvent,
    StreamEvent,
)
from vibe_llms.exceptions import (
    CapabilityError,
    ControlError,
    ConverseError,
    ProviderError,
    RequestError,
)
from vibe_llms.foundation.error_facts import access_facts
from vibe_llms.foundation.limits import Limits
from vibe_llms.messages.canisters import StopReason, UserCanister
from vibe_llms.messages.codec.envelopes import encode_request
from vibe_llms.messages.contents import AnyContent, FileContent, ImageContent
from vibe_llms.messages.losses import Loss, LossKind
from vibe_llms.messages.requests import Request, Response
from vibe_llms.models.addresses import ModelAddress
from vibe_llms.models.attributes import ModelAttributes
from vibe_llms.models.catalogue import Catalogue
from vibe_llms.models.descriptors import ModelDescriptor
from vibe_llms.models.genera import Genus
from vibe_llms.models.integrators import ModelsIntegrator
from vibe_llms.models.tokens import TokenCount
from vibe_llms.providers.assembly import Assembler
from vibe_llms.providers.gateway.relaying import RelayedAssembler
from vibe_llms.wire.sse import SseFramer

UNKNOWN = ModelAttributes(
    address=ModelAddress("remote", "far:model"),
    genus=Genus.CONVERSER,
    controls=(),
    traced_values=(),
)
REQUEST = Request(canisters=[UserCanister("Hi.")])


@pytest.mark.slow
@given(request=questions, streaming=st.booleans())
def test_a_request_arrives_unchanged(request: Request, streaming: bool) -> None:
    """With every canister, content, control and invocable; only its model is that of the other
    side.
    """
    translation = converse.nativize_request(request, UNKNOWN, streaming=streaming)
    body = json.loads(msgspec.json.encode(translation.value))

    arrived = converse.normalize_request(body)

    expected = attrs.evolve(request, model="far:model")
    assert arrived.value == expected
    assert encode_request(arrived.value) == encode_request(expected)
    assert body["stream"] is streaming
    assert not translation.losses + arrived.losses


@pytest.mark.slow
@given(questions)
def test_the_processors_read_what_they_wrote(request: Request) -> None:
    """Each its own part."""
    processors = converse.produce_processors()
    model = ModelDescriptor(provider="remote", name="far:model", attributes=UNKNOWN)
    body = converse.nativize_request(request, UNKNOWN).value

    assert processors.controls.normalize(body, model).value == request.controls
    assert processors.messages.normalize(body, model).value == request.canisters
    described = (request.invocables, request.invocation_choice)
    assert processors.invocations.normalize(body, model).value == described


@pytest.mark.slow
@given(response=answers)
def test_a_complete_answer_arrives_unchanged(response: Response) -> None:
    """With its origin, usage, losses, attempts and native data."""
    body = msgspec.json.encode(converse.nativize_response(response).value)
    decoder = produce_decoder()

    events = decoder.decode_response(body)

    check_arrival(events, response)


@pytest.mark.slow
@given(response=answers, data=st.data())
def test_a_stream_equals_the_complete_answer(response: Response, data: st.DataObject) -> None:
    """In any chunks, with comments in between."""
    frames = write_stream(list_assembled_events(response), response)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(frames)), max_size=8)))
    framer, decoder = SseFramer(Limits()), produce_decoder()

    events: list[StreamEvent] = []
    for start, end in zip([0, *cuts], [*cuts, len(frames)], strict=True):
        for frame in framer.feed(frames[start:end]):
            events += decoder.decode(frame.data, frame.event)
    events += decoder.finish()

    check_arrival(events, response)


def test_retries_and_losses_are_reported_once() -> None:
    """As events, or at the end; each attempt is counted once."""
    error = ProviderError(provider="far", detail="Busy.", status=429, retry_after_seconds=2)
    loss, late = (
        Loss(kind=LossKind.DROPPED, path=path, reason="so") for path in ("canisters[0]", "late")
    )
    response = produce_response(losses=[loss, late], attempts=3)
    reported: list[StreamEvent] = [
        LossEvent(loss=loss),
        RetryEvent(attempt=2, after_seconds=2.0, error=error),
    ]

    events = read_stream(write_stream([*reported, *list_assembled_events(response)[:-1]], response))

    assert [each.loss for each in events if isinstance(each, LossEvent)] == [loss, late]
    retried = next(each for each in events if isinstance(each, RetryEvent))
    assert access_facts(retried.error) == access_facts(error)
    assert access_last(events).metadata.attempts == 2  # of three, one was reported of


@pytest.mark.slow
@pytest.mark.parametrize("cls", survey_error_classes(), ids=lambda cls: cls.__name__)
@given(data=st.data())
def test_an_error_of_any_class_arrives_unchanged(
    cls: type[ConverseError], data: st.DataObject
) -> None:
    """With class, stage, facts, remedy and cause; before an answer and within one."""
    error = data.draw(errors_of(cls))
    error.__cause__ = ValueError("below")
    answer = converse.nativize_error(error)
    body = json.loads(msgspec.json.encode(answer.body))

    whole = converse.produce_error(body, provider="remote", status=answer.status)
    with pytest.raises(ConverseError) as caught:
        read_stream(converse.StreamWriter({}).fail(error))

    assert 400 <= answer.status <= 599
    for each in (whole, caught.value):
        assert type(each) is cls
        assert access_facts(each) == access_facts(error)
        assert str(each) == str(error)
        assert "below" in str(each.__cause__)


def test_a_failed_stream_reports_only_its_error() -> None:
    """The received contents were sent before."""
    failed = ResponseFailedEvent(error=ConverseError(detail="x"), canisters=REQUEST.canisters)
    writer = converse.StreamWriter({})

    assert writer.write(failed) == converse.StreamWriter({}).fail(failed.error)


def test_the_time_to_wait_is_also_in_a_header() -> None:
    """For proxies in between."""
    error = ProviderError(provider="far", status=429, retry_after_seconds=1.5)

    answer = converse.nativize_error(error)

    assert answer.status == 429
    assert answer.headers == {"retry-after": "2"}


@given(st.integers(0, 2**40), st.integers(0, 2**40))
def test_a_token_count_keeps_its_maximum_error(tokens: int, error: int) -> None:
    """The maximum error is sent with it."""
    count = TokenCount(tokens=tokens, error_tokens=error)

    assert converse.normalize_count(dict(converse.nativize_count(count)), "remote") == count


def test_models_have_the_source_of_each_value() -> None:
    """Every value of all known models, but no file names."""
    integrator = Catalogue().access_integrator("anthropic")
    attributes = integrator.integrate("claude-sonnet-4-6")
    model = ModelDescriptor(provider="anthropic", name="claude-sonnet-4-6", attributes=attributes)

    body = json.loads(msgspec.json.encode(converse.nativize_models({"sonnet": model})))
    (reported,) = converse.normalize_models(body, "remote")

    assert (reported.address, reported.model) == ("sonnet", "anthropic:claude-sonnet-4-6")
    assert [each.key for each in reported.values] == [each.key for each in attributes.traced_values]
    window = next(each for each in reported.values if each.key == "context_window_tokens")
    provenance = attributes.access_provenance("context_window_tokens")
    assert provenance is not None
    assert window.value == attributes.access_value("context_window_tokens")
    assert (window.source, window.date) == (provenance.source, provenance.date)
    assert "toml" not in json.dumps(body)


def test_an_unsupported_control_is_rejected_locally() -> None:
    """Without a request; unless the request is lenient, then the other side leaves it out."""
    known = Catalogue().access_integrator("anthropic").integrate("claude-sonnet-4-6")
    request = attrs.evolve(REQUEST, controls={"no_such": 1})

    with pytest.raises(ControlError, match="no_such"):
        converse.nativize_request(request, known)
    converse.nativize_request(attrs.evolve(request, lenient=True), known)
    converse.nativize_request(request, UNKNOWN)


def test_unusable_media_are_rejected_locally() -> None:
    """They are only in the local store, or the model is known not to support them."""
    stored = ImageContent(mime_type="image/png", content_id="ab" * 32)
    shown = ImageContent(mime_type="image/png", data=b"png")
    blind = ModelsIntegrator(provider="remote").integrate("far", facts={"supports_images": False})
    notes = FileContent(mime_type="text/plain", data=b"Notes.")
    deaf = ModelsIntegrator(provider="remote").integrate("far", facts={"supports_files": False})

    with pytest.raises(RequestError, match="content store") as caught:
        converse.nativize_request(produce_request("What is it?", stored), UNKNOWN)
    with pytest.raises(CapabilityError, match="images"):
        converse.nativize_request(produce_request("What is it?", shown), blind)

    assert caught.value.path == "canisters[0].content[1]"
    converse.nativize_request(produce_request("What is it?", shown), deaf)
    converse.nativize_request(produce_request("What is it?", notes), deaf)  # which goes as text


@pytest.mark.parametrize(
    ("version", "remedy"), [(2, "on the server"), (0, "on the client"), (None, "URL")]
)
def test_a_request_in_another_version_is_rejected(version: int | None, remedy: str) -> None:
    """The error names the side to upgrade, whatever else the request contains."""
    with pytest.raises(RequestError, match=remedy):
        converse.normalize_request({"version": version, "request": {"new": 1}, "newer": 2})


@pytest.mark.parametrize(
    ("version", "remedy"), [(2, "here"), (0, "server of remote"), (None, "URL")]
)
def test_an_answer_in_another_version_is_rejected(version: int | None, remedy: str) -> None:
    """Complete, streamed, and lists of models."""
    body = msgspec.json.encode({"version": version, "new": 1})
    reads: list[Any] = [
        lambda: produce_decoder().decode_response(body),
        lambda: produce_decoder().decode(body, "converse"),
        lambda: converse.normalize_count({"version": version}, "remote"),
        lambda: converse.normalize_models({"version": version}, "remote"),
    ]
    for read in reads:
        with pytest.raises(ConverseError, match=remedy):
            read()


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ("<html>Not Found</html>", 404, "another vibe-llms"),
        ({"message": "no upstream"}, 502, "no upstream"),
        ({"error": {"stage": "mars"}}, 500, "status 500"),
        ("", 503, "status 503"),
    ],
)
def test_an_error_of_a_proxy_keeps_its_message(body: Any, status: int, message: str) -> None:
    """It is an error of the provider, like that of any vendor."""
    error = converse.produce_error(body, provider="remote", status=status)

    assert isinstance(error, ProviderError)
    assert error.status == status
    assert message in str(error)


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ({"version": 1}, "request"),
        ({"version": 1, "request": {"canisters": [{"role": "usr"}]}}, "request.canisters[0].role"),
    ],
)
def test_an_invalid_request_is_located(body: Any, place: str) -> None:
    """By the path of the invalid value."""
    with pytest.raises(RequestError) as caught:
        converse.normalize_request(body)

    assert caught.value.path == place


def produce_request(*contents: AnyContent | str) -> Request:
    """Make a request."""
    return Request(canisters=[UserCanister(contents)])


def test_the_loss_of_a_compaction_is_reported_once() -> None:
    """It comes with the answer, and its canisters show it, too."""
    block = {"type": "compaction", "content": "They talked about rivers."}
    native = {"id": "m", "type": "message", "role": "assistant", "model": "model",
              "content": [block], "stop_reason": "compaction", "usage": {}}  # fmt: skip
    assembler = Assembler(provider="far", model="model", protocol="messages")
    for event in messages.Decoder(provider="far", model="model").decode_response(
        json.dumps(native).encode()
    ):
        assembler.feed(event)
    response = assembler.produce_response(REQUEST, duration_seconds=1.0, first_seconds=None)
    relayed = RelayedAssembler("far:model", "remote")
    for event in produce_decoder().decode_response(
        msgspec.json.encode(converse.nativize_response(response).value)
    ):
        relayed.feed(event)
    again = relayed.produce_response(REQUEST, duration_seconds=1.0, first_seconds=None)

    assert "has compacted" in response.losses[0].reason
    assert again.losses == response.losses


def produce_decoder() -> converse.Decoder:
    """Make a decoder of an answer to the request of this module."""
    return converse.Decoder(provider="remote", model="far:model", request=REQUEST)


def produce_response(**fields: Any) -> Response:
    """Make a response of one text."""
    assembler = Assembler(provider="far", model="model", protocol="messages")
    assembler.attempts = fields.pop("attempts", 1)
    for event in list_text_events():
        assembler.feed(event)
    response = assembler.produce_response(REQUEST, duration_seconds=1.0, first_seconds=None)
    return attrs.evolve(response, **fields)


def list_text_events() -> list[StreamEvent]:
    """Return the events of an answer of one text."""
    return [
        ContentStartedEvent(index=0, kind="text"),
        ContentDeltaEvent(0, "word"),
        ContentFinishedEvent(index=0),
        ResponseFinishedEvent(stop_reason=StopReason.ANSWERED),
    ]


def list_assembled_events(response: Response) -> list[StreamEvent]:
    """Return the events of an answer as the assembler of the serving side passes them on."""
    body = msgspec.json.encode(converse.nativize_response(response).value)
    events = produce_decoder().decode_response(body)
    events = [each for each in events if not isinstance(each, LossEvent)]
    losses: list[StreamEvent] = [LossEvent(loss=each) for each in response.losses[1:]]
    return [*losses, *events[:-1], attrs.evolve(events[-1], response=response)]


def write_stream(events: list[StreamEvent], response: Response) -> bytes:
    """Return the frames of a stream, with keep-alive frames between them."""
    writer = converse.StreamWriter({}, model="far:model")
    last = next((each for each in events if isinstance(each, ResponseFinishedEvent)), None)
    if last is None:
        stop = response.metadata.origin.stop_reason
        events = [*events, ResponseFinishedEvent(stop_reason=stop, response=response)]
    return b": alive\n\n".join(writer.write(event) for event in events)


def read_stream(frames: bytes) -> list[StreamEvent]:
    """Return the events of a complete stream."""
    framer, decoder = SseFramer(Limits()), produce_decoder()
    events: list[StreamEvent] = []
    for frame in framer.feed(frames):
        events += decoder.decode(frame.data, frame.event)
    return [*events, *decoder.finish()]


def access_last(events: list[StreamEvent]) -> Response:
    """Return the response in the last event."""
    last = events[-1]
    assert isinstance(last, ResponseFinishedEvent)
    assert last.response is not None
    return last.response


def check_arrival(events: list[StreamEvent], response: Response) -> None:
    """Compare the received answer with the sent one."""
    assembler = Assembler(provider="remote", model="far:model")
    for event in events:
        assembler.feed(event)
    origin = response.metadata.origin
    arrived = reduce_origin(assembler.produce_canisters(), origin)
    assert arrived == reduce_origin(response.canisters, origin)
    assert sorted(map(str, assembler.losses)) == sorted(map(str, response.losses))
    assert access_last(events).metadata == response.metadata

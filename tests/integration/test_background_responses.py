"""Responses in the background, over several connections to the vendor and several processes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import sys
import textwrap
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import attrs
import openai
import pytest

from support.vendors.remoting import access_integrator, produce_context
from vibe_llms.conversations.conversation import Conversation
from vibe_llms.conversations.stores.directory import DirectoryStore
from vibe_llms.events.engine import GenerationFailedEvent, GenerationQueuedEvent
from vibe_llms.events.stream import ContentDeltaEvent, ResponseStartedEvent, RetryEvent
from vibe_llms.exceptions import ConverseError, ProviderError, RequestError, TransportError
from vibe_llms.instruments.engines import Engine
from vibe_llms.messages.canisters import UserCanister
from vibe_llms.messages.contents import Native
from vibe_llms.messages.requests import Request, Response
from vibe_llms.messages.views import text_of
from vibe_llms.providers import google, openai_responses
from vibe_llms.providers.interfaces import ConverserModel
from vibe_llms.testing.simulator import Simulator
from vibe_llms.testing.simulator.scripts import Say, ScriptedAnswer, Think


@attrs.frozen(kw_only=True)
class Vendor:
    """A vendor with responses in the background.

    Attributes:
        name: The provider.
        module: The provider's module.
        model: A model.
        base: Path of the base URL.
        path: Path of responses.
        position: Parameter with the position in a stream.
        positions: Prefix of the positions, and the first one.
        settings: Further settings.
    """

    name: str
    module: ModuleType
    model: str
    path: str
    position: str
    positions: tuple[str, int]
    base: str = ""
    settings: Mapping[str, Any] = attrs.field(factory=dict)


VENDORS = {
    "openai_responses": Vendor(
        name="openai_responses",
        module=openai_responses,
        model="gpt-5",
        base="/v1",
        path="/responses",
        position="starting_after",
        positions=("", 0),
    ),
    "google_interactions": Vendor(
        name="google_interactions",
        module=google,
        model="gemini-3-flash",
        path="/interactions",
        position="last_event_id",
        positions=("event_", 1),
        settings={"protocol": "interactions"},
    ),
}
OPENAI = VENDORS["openai_responses"]
MODEL = OPENAI.model
TEXT = "One two three four five six seven."
Access = Callable[..., Awaitable[ConverserModel]]


@pytest.fixture
async def simulator() -> AsyncIterator[Simulator]:
    """The vendor."""
    async with Simulator() as running:
        yield running


@pytest.fixture(params=VENDORS)
def vendor(request: pytest.FixtureRequest) -> Vendor:
    """The provider and its protocol."""
    return VENDORS[request.param]


only_openai = pytest.mark.parametrize("vendor", ["openai_responses"], indirect=True)


@pytest.fixture
async def access_model(
    tmp_path: Path, simulator: Simulator, vendor: Vendor
) -> AsyncIterator[Access]:
    """Gives access to models of the provider, and closes their clients at the end."""
    clients = []

    async def access(simulate: str = "", name: str = "", **settings: Any) -> ConverserModel:
        base = simulator.access_url(simulate) if simulate else simulator.url
        url = base + vendor.base
        settings = {"api_key": "canary", "base_url": url, **vendor.settings, **settings}
        context = produce_context(vendor.name, tmp_path, **settings)
        attributes = access_integrator(vendor.module.__name__.rpartition(".")[2])
        context = attrs.evolve(context, produce_attributes=lambda: attributes)
        clients.append(vendor.module.produce_provider(context).produce_client())
        return await clients[-1].access_model(name or vendor.model)

    yield access
    for client in clients:
        await client.close()


def compose(text: str = TEXT, **more: Any) -> Request:
    """Compose a request for a response in the background."""
    return Request(canisters=[UserCanister(text)], **{"controls": {"background": True}, **more})


def wait_hours(window: str) -> Native:
    """Return the parameters that let the vendor answer later, for less."""
    data = json.dumps({"background_options": {"completion_window": window}})
    return Native(protocol="responses", data=data)


def list_calls(simulator: Simulator) -> list[str]:
    """List the method and path of each request."""
    paths = [re.sub(r"^.*?/v1(beta)?(?=/)", "", each.path) for each in simulator.requests]
    return [f"{each.method} {path}" for each, path in zip(simulator.requests, paths, strict=True)]


def count_created(simulator: Simulator) -> int:
    """Count the requests that the vendor bills."""
    calls = list_calls(simulator)
    return calls.count("POST /responses") + calls.count("POST /interactions")


def describe(response: Response) -> list[Any]:
    """Describe the contents and the end of a response, without ids."""
    contents = [(each.role, repr(each.content)) for each in response.canisters]
    return [contents, response.stop_reason, response.usage]


async def test_answers_equal_those_in_the_foreground(
    simulator: Simulator, access_model: Access
) -> None:
    model = await access_model("background_polls=3")
    turn = ScriptedAnswer(parts=(Think("I consider it."), Say(TEXT)))
    described = []
    for controls in ({}, {"background": True}):
        for stream in (True, False):
            simulator.enqueue(turn)
            request = compose(controls={**controls, "reasoning_effort": "low"})
            response = await model.converse(request, stream=stream)
            assert response.losses == ()
            described.append(describe(response))
    assert all(each == described[0] for each in described)
    background = [each.body for each in simulator.requests if each.body][2:]
    assert [each["background"] for each in background] == [True, True]
    assert all("store" not in each for each in background)
    assert count_created(simulator) == 4
    # Only the last one was polled, since the streams were complete: three times, then at its end.
    assert len(simulator.requests) == 8


CUTS = [2, 6, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 3, 4, 5, 7, 8, 9, 10, 11))]


@pytest.mark.parametrize("cut", CUTS)
async def test_a_stream_continues_after_a_lost_connection(
    simulator: Simulator, access_model: Access, vendor: Vendor, cut: int
) -> None:
    """Wherever it broke off, each piece of the text arrives once."""
    model = await access_model()
    simulator.enqueue(Say(TEXT), simulate=f"cut_at_chunk={cut}")
    async with model.stream(compose()) as stream:
        events = [event async for event in stream]
        response = await stream.response()
    pieces = [each.text for each in events if isinstance(each, ContentDeltaEvent)]
    assert "".join(pieces) == response.text == TEXT
    retries = [each for each in events if isinstance(each, RetryEvent)]
    assert [each.resumes for each in retries] == [True]
    assert response.metadata.attempts == 1  # it was sent and billed once
    assert sum(isinstance(each, ResponseStartedEvent) for each in events) == 1
    assert list_calls(simulator)[0] == f"POST {vendor.path}"
    assert count_created(simulator) == 1
    prefix, first = vendor.positions
    position = f"{prefix}{first + cut - 1}"
    assert simulator.requests[1].query == {"stream": "true", vendor.position: position}


@pytest.mark.parametrize(("cut", "arrives"), [(2, False), (6, True)])
async def test_a_connection_lost_again_and_again_leaves_the_id(
    simulator: Simulator, access_model: Access, cut: int, arrives: bool
) -> None:
    """The error names the response, which another request receives."""
    model = await access_model()
    simulator.enqueue(Say(TEXT), simulate=f"cut_at_chunk={cut}")
    async with model.stream(compose()) as stream:
        await anext(aiter(stream))
        simulator.switch("drop_connection_before_headers")
        with pytest.raises(ConverseError) as raised:
            await stream.response()
    arrived = text_of(raised.value.arrived)
    assert TEXT.startswith(arrived)
    assert bool(arrived) == arrives
    simulator.switch("")
    response_id = raised.value.response_id
    assert response_id
    assert count_created(simulator) == 1
    assert not any(each.endswith("/cancel") for each in list_calls(simulator))

    again = await access_model()
    response = await again.converse(compose(resume=response_id))
    assert response.text == TEXT
    assert count_created(simulator) == 1


@only_openai
async def test_a_response_that_cannot_be_streamed_is_polled(
    simulator: Simulator, access_model: Access
) -> None:
    """The vendor may answer hours later, and then has no events."""
    model = await access_model("background_polls=2")
    async with model.stream(compose(native=wait_hours("8h"))) as stream:
        started = await anext(aiter(stream))
        assert isinstance(started, ResponseStartedEvent)
        stream.detach()
    assert simulator.requests[0].body["background_options"] == {"completion_window": "8h"}
    assert "stream" not in simulator.requests[0].body
    response = await model.converse(compose(resume=started.response_id or ""))
    assert response.text == TEXT
    assert count_created(simulator) == 1


@pytest.mark.parametrize("detaches", [False, True])
async def test_closing_cancels_the_response_unless_it_is_detached(
    simulator: Simulator, access_model: Access, vendor: Vendor, detaches: bool
) -> None:
    model = await access_model()
    simulator.enqueue(Say(TEXT), simulate="stall_at_chunk=3")
    async with model.stream(compose()) as stream:
        started = await anext(aiter(stream))
        assert isinstance(started, ResponseStartedEvent)
        if detaches:
            stream.detach()
    cancelled = [each for each in list_calls(simulator) if each.endswith("/cancel")]
    path = f"POST {vendor.path}/{started.response_id}/cancel"
    assert cancelled == ([] if detaches else [path])


async def test_a_cancelled_task_cancels_the_response(
    simulator: Simulator, access_model: Access
) -> None:
    model = await access_model("background_polls=1000000")
    task = asyncio.create_task(model.converse(compose(), stream=False))
    while len(simulator.requests) < 3:  # noqa: ASYNC110  # the vendor counts them
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert list_calls(simulator)[-1].endswith("/cancel")


async def test_a_complete_response_is_not_cancelled(
    simulator: Simulator, access_model: Access
) -> None:
    model = await access_model()
    for stream in (True, False):
        await model.converse(compose(), stream=stream)
    assert not any(each.endswith("/cancel") for each in list_calls(simulator))


@only_openai
async def test_a_cancelled_response_is_interrupted(
    simulator: Simulator, access_model: Access
) -> None:
    """Another process may cancel it."""
    model = await access_model("background_polls=2")
    async with model.stream(compose(native=wait_hours("2h"))) as stream:
        started = await anext(aiter(stream))
        assert isinstance(started, ResponseStartedEvent)
        async with openai.AsyncOpenAI(api_key="k", base_url=f"{simulator.url}/v1") as client:
            cancelled = await client.responses.cancel(started.response_id or "")
            assert cancelled.status == "cancelled"
        with pytest.raises(ConverseError, match="state 'cancelled'"):
            await stream.response()


@only_openai
async def test_unknown_responses_and_other_vendors_are_errors(
    access_model: Access, tmp_path: Path
) -> None:
    from vibe_llms.providers.anthropic import produce_provider as produce_anthropic

    model = await access_model()
    with pytest.raises(ProviderError, match="not found"):
        await model.converse(compose(resume="resp_unknown"))
    provider = produce_anthropic(produce_context("anthropic", tmp_path, api_key="k"))
    client = provider.produce_client()
    other = await client.access_model("claude-sonnet-5")
    with pytest.raises(RequestError, match="no responses in the background"):
        await other.converse(Request(canisters=[UserCanister("Hi.")], resume="resp_1"))
    await client.close()


async def test_the_official_library_reads_the_events_again(simulator: Simulator) -> None:
    """The simulator behaves as OpenAI's package expects."""
    async with openai.AsyncOpenAI(api_key="k", base_url=f"{simulator.url}/v1") as client:
        stream = await client.responses.create(
            model=MODEL, input=TEXT, background=True, stream=True
        )
        events = [event async for event in stream]
        identity = events[0].response.id  # type: ignore[union-attr]
        rest = await client.responses.retrieve(identity, stream=True, starting_after=3)
        assert [event.sequence_number async for event in rest] == [
            event.sequence_number for event in events[4:]
        ]
        queued = await client.responses.create(model=MODEL, input=TEXT, background=True)
        assert queued.status == "queued"
        states = [(await client.responses.retrieve(queued.id)).status for _ in range(2)]
        assert states == ["in_progress", "completed"]
        with pytest.raises(openai.BadRequestError):
            await client.responses.retrieve(queued.id, stream=True)


# --- engines -------------------------------------------------------------------------------------


def list_events(store: DirectoryStore, conversation: Conversation) -> list[Any]:
    """List the events in the log of a conversation."""
    return [each.event for each in store.open_log(conversation.id).read()]


async def test_a_run_records_the_id_before_it_waits(
    simulator: Simulator, access_model: Access, tmp_path: Path
) -> None:
    store = DirectoryStore(tmp_path / "store")
    model = await access_model()
    engine = Engine(model, store=store, controls={"background": True}, stream=False)
    conversation = await engine.run(Conversation(canisters=[UserCanister(TEXT)]))
    assert text_of(conversation.canisters[-1]) == TEXT
    kinds = [each.type for each in list_events(store, conversation)]
    assert kinds == [
        "run.started",
        "run.state",
        "generation.started",
        "generation.queued",
        "generation.finished",
        "run.state",
        "run.ended",
    ]


async def test_a_run_continues_with_the_same_response_after_an_error(
    simulator: Simulator, access_model: Access, tmp_path: Path
) -> None:
    """The connection was lost for too long; the vendor has completed the response since."""
    store = DirectoryStore(tmp_path / "store")

    def listen(event: Any) -> None:
        if event.type == "generation.queued":
            simulator.switch("drop_connection_before_headers")

    model, controls = await access_model(), {"background": True}
    simulator.enqueue(Say(TEXT), simulate="cut_at_chunk=6")
    engine = Engine(model, store=store, controls=controls, listener=listen)
    run = engine.prepare(Conversation(canisters=[UserCanister(TEXT)]))
    outcome = await run.perform()
    simulator.switch("")
    assert isinstance(outcome.error, ConverseError)
    events = list_events(store, run.conversation)
    (failed,) = (each for each in events if isinstance(each, GenerationFailedEvent))
    (queued,) = (each for each in events if isinstance(each, GenerationQueuedEvent))
    assert failed.response_id == queued.response_id != ""
    assert not events[-1].settles
    assert len(run.conversation.canisters) == 1  # no part: the whole answer will be received

    engine = Engine(model, store=store, controls=controls)
    finished = await engine.run(run.conversation)
    assert text_of(finished.canisters[-1]) == TEXT
    assert count_created(simulator) == 1
    events = list_events(store, finished)
    assert "generation.doubted" not in [each.type for each in events]
    assert events[-1].settles


async def test_a_cancelled_run_cancels_the_response_and_asks_anew(
    simulator: Simulator, access_model: Access, tmp_path: Path
) -> None:
    store = DirectoryStore(tmp_path / "store")
    queued = asyncio.Event()
    engine = Engine(
        await access_model(),
        store=store,
        controls={"background": True},
        listener=lambda event: event.type == "generation.queued" and queued.set(),
    )
    simulator.enqueue(Say(TEXT), simulate="stall_at_chunk=3")
    run = engine.prepare(Conversation(canisters=[UserCanister(TEXT)]))
    task = asyncio.create_task(run.perform())
    async with asyncio.timeout(60):
        await queued.wait()
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert list_calls(simulator)[-1].endswith("/cancel")
    await engine.run(run.conversation)
    assert count_created(simulator) == 2


async def test_a_run_that_is_handed_over_leaves_its_response(
    simulator: Simulator, access_model: Access, tmp_path: Path
) -> None:
    """A worker that stops does not cancel a response that the next one receives."""
    store = DirectoryStore(tmp_path / "store")
    queued = asyncio.Event()
    engine = Engine(
        await access_model(),
        store=store,
        controls={"background": True},
        listener=lambda event: event.type == "generation.queued" and queued.set(),
    )
    simulator.enqueue(Say(TEXT), simulate="stall_at_chunk=6")
    run = engine.prepare(
        Conversation(canisters=[UserCanister(TEXT)]), temporary_errors=(TransportError,)
    )
    task = asyncio.create_task(run.perform())
    async with asyncio.timeout(60):
        await queued.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert not any(each.endswith("/cancel") for each in list_calls(simulator))
    finished = await engine.run(run.conversation)
    assert text_of(finished.canisters[-1]) == TEXT
    assert count_created(simulator) == 1


async def test_another_model_does_not_receive_the_response(
    simulator: Simulator, access_model: Access, tmp_path: Path
) -> None:
    """The earlier answer is lost, and may have been billed."""
    store = DirectoryStore(tmp_path / "store")
    queued, controls = asyncio.Event(), {"background": True}
    engine = Engine(
        await access_model(),
        store=store,
        controls=controls,
        listener=lambda event: event.type == "generation.queued" and queued.set(),
    )
    simulator.enqueue(Say(TEXT), simulate="stall_at_chunk=6")
    run = engine.prepare(
        Conversation(canisters=[UserCanister(TEXT)]), temporary_errors=(TransportError,)
    )
    task = asyncio.create_task(run.perform())
    async with asyncio.timeout(60):
        await queued.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    other = Engine(await access_model(name="another"), store=store, controls=controls)
    finished = await other.run(run.conversation)
    assert text_of(finished.canisters[-1]) == TEXT
    assert count_created(simulator) == 2
    assert simulator.requests[-1].body["model"] == "another"


VICTIM = """
import asyncio, sys
from pathlib import Path
from support.vendors.remoting import produce_context
from vibe_llms.conversations.conversation import Conversation
from vibe_llms.conversations.stores.directory import DirectoryStore
from vibe_llms.instruments.engines import Engine
from vibe_llms.messages.canisters import UserCanister
from vibe_llms.providers.openai_responses import produce_provider

async def main():
    path, url, text = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    context = produce_context("openai_responses", path, api_key="k", base_url=url)
    model = await produce_provider(context).produce_client().access_model("gpt-5")
    def listen(event):
        if event.type == "generation.queued":
            print(event.response_id, flush=True)
    engine = Engine(
        model, store=DirectoryStore(path / "store"), controls={"background": True}, listener=listen
    )
    await engine.run(Conversation(id="killed", canisters=[UserCanister(text)]))

asyncio.run(main())
"""


@pytest.mark.slow
@only_openai
async def test_a_killed_engine_resumes_the_response_that_it_waited_for(
    simulator: Simulator, access_model: Access, tmp_path: Path
) -> None:
    """Nothing is paid for twice: the vendor gets one request."""
    simulator.enqueue(Say(TEXT), simulate="stall_at_chunk=5")
    program = [sys.executable, "-c", textwrap.dedent(VICTIM), str(tmp_path), f"{simulator.url}/v1"]
    environment = {"PYTHONPATH": str(Path(__file__).parents[1])}
    process = await asyncio.create_subprocess_exec(
        *program, TEXT, stdout=asyncio.subprocess.PIPE, env=environment
    )
    assert process.stdout is not None
    line = await process.stdout.readline()
    process.kill()
    await process.wait()
    response_id = line.decode().strip()
    assert response_id.startswith("resp_")

    store = DirectoryStore(tmp_path / "store")
    engine = Engine(await access_model(), store=store, controls={"background": True})
    finished = await engine.run(Conversation.restore(store, "killed"))
    assert text_of(finished.canisters[-1]) == TEXT
    assert count_created(simulator) == 1
    assert f"GET /responses/{response_id}" in list_calls(simulator)
    assert "generation.doubted" not in [each.type for each in list_events(store, finished)]

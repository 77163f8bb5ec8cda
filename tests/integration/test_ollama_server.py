"""The provider ``ollama`` against a simulated server, over real sockets: asked, stopped, misled."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from vibe_llms.events.stream import ContentDeltaEvent
from vibe_llms.exceptions import (
    ContextOverflowError,
    ConverseError,
    ProviderError,
    Stage,
    StreamTruncatedError,
    TransportError,
)
from vibe_llms.foundation.limits import Limits
from vibe_llms.messages.canisters import (
    InvocationCanister,
    ResultCanister,
    StopReason,
    UserCanister,
)
from vibe_llms.messages.contents import ImageContent, ReasoningContent, TextualContent
from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.messages.losses import LossKind
from vibe_llms.messages.requests import Request, Response
from vibe_llms.models.catalogue import Catalogue
from vibe_llms.plugins.specification.models import ProviderContext
from vibe_llms.providers.ollama import produce_provider
from vibe_llms.testing.simulator import Invoke, Say, Simulator
from vibe_llms.testing.simulator.behaviour import produce_png

WEATHER = InvocableDescription(
    name="weather",
    description="Tells the weather.",
    schema={"type": "object", "properties": {"city": {"type": "string"}}},
)


class Quiet:
    """Nobody agrees to anything, and nobody looks."""

    def ask(self, subject: str, question: str) -> bool:
        return False

    def start(self, total: int | None, label: str) -> None: ...

    def advance(self, amount: int) -> None: ...

    def finish(self) -> None: ...


@pytest.fixture
def produce_context(tmp_path: Path) -> Callable[..., ProviderContext]:
    def produce(**settings: Any) -> ProviderContext:
        return ProviderContext(
            name="ollama",
            settings=settings,
            data_directory=tmp_path / "data",
            cache_directory=tmp_path / "cache",
            consent=Quiet(),
            progress=Quiet(),
            limits=Limits(attempts=1),
            produce_attributes=lambda: Catalogue().access_integrator("ollama"),
        )

    return produce


@pytest.fixture
async def simulator() -> AsyncIterator[Simulator]:
    async with Simulator() as running:
        yield running


@pytest.fixture
def ask(
    simulator: Simulator, produce_context: Callable[..., ProviderContext]
) -> Callable[..., Any]:
    """Asks one request of the simulator, with faults switched on."""

    async def perform(request: Request, *, simulate: str = "", stream: bool = True) -> Response:
        url = simulator.access_url(simulate) if simulate else simulator.url
        client = produce_provider(produce_context(base_url=url)).produce_client()
        try:
            model = await client.access_model("simulated-large")
            return await model.converse(request, stream=stream)
        finally:
            await client.close()

    return perform


def say(*contents: Any, **fields: Any) -> Request:
    return Request(canisters=(UserCanister(contents),), **fields)


@pytest.mark.parametrize("stream", [True, False])
async def test_all_modalities_go_and_come(ask: Callable[..., Any], stream: bool) -> None:
    """A picture is seen, reasoning is shown, and a schema is held to, streamed or whole."""
    picture = ImageContent(mime_type="image/png", data=produce_png(4, 4))
    response = await ask(
        say(picture, TextualContent("what is it?"), controls={"reasoning_effort": "high"}),
        stream=stream,
    )
    assert isinstance(response.canisters[0].content[0], ReasoningContent)
    assert response.text
    assert response.losses == ()
    assert response.metadata.usage.input_tokens
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    assert '"a"' in (await ask(say("give", schema=schema), stream=stream)).text


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("simulate", ["", "missing_ids", "missing_index"])
async def test_a_tool_is_invoked_and_its_result_heard(
    ask: Callable[..., Any], simulator: Simulator, simulate: str, stream: bool
) -> None:
    """The exchange works with ids and without; made-up ids stay with us."""
    question = UserCanister("call weather, please")
    first = await ask(
        Request(canisters=(question,), invocables=(WEATHER,)), simulate=simulate, stream=stream
    )
    call = first.canisters[-1]
    assert isinstance(call, InvocationCanister)
    assert call.fault is None
    assert first.metadata.stop_reason is StopReason.INVOCATION
    result = ResultCanister("Sunny.", invocation_id=call.invocation_id)
    conversation = (question, *first.canisters, result)

    second = await ask(Request(canisters=conversation, invocables=(WEATHER,)), stream=stream)

    assert "Sunny." in second.text
    sent = simulator.requests[-1].body["messages"][-2:]
    assert ("id" in sent[0]["tool_calls"][0]) is (simulate != "missing_ids")
    assert sent[1]["tool_name"] == "weather"


async def test_stopping_midway_closes_the_connection(
    simulator: Simulator, produce_context: Callable[..., ProviderContext]
) -> None:
    """What had arrived is kept, and the server is not left talking to nobody."""
    simulator.enqueue(Say("word " * 200), simulate="slow=20")
    client = produce_provider(produce_context(base_url=simulator.url)).produce_client()
    model = await client.access_model("simulated-large")
    async with model.stream(say("go on")) as stream:
        async for event in stream:
            if isinstance(event, ContentDeltaEvent):
                break
    assert stream.canisters
    assert not simulator.requests[-1].answered
    await client.close()


@pytest.mark.parametrize(
    ("simulate", "error"),
    [
        ("cut_at_chunk", (TransportError, StreamTruncatedError)),
        ("no_terminator", StreamTruncatedError),
        ("midstream_overloaded", ProviderError),
        ("midstream_rate_limit", ProviderError),
        ("garbage_line", ConverseError),
        ("invalid_utf8", ConverseError),
        ("deep_nesting", ConverseError),
        ("wrong_content_type", ConverseError),
        ("drop_connection_before_headers", TransportError),
        ("rate_limit=9", ProviderError),
        ("overloaded=9", ProviderError),
        ("server_error=9", ProviderError),
    ],
)
async def test_each_fault_is_its_own_error(
    ask: Callable[..., Any], simulate: str, error: type[Exception]
) -> None:
    """Nothing that goes wrong looks like an answer."""
    with pytest.raises(error):
        await ask(say("tell me a long story about the sea and its ships"), simulate=simulate)


@pytest.mark.parametrize(
    "simulate", ["split_bytes", "crlf", "comments", "no_usage", "usage_only_at_end", "reused_ids"]
)
async def test_oddities_change_nothing(ask: Callable[..., Any], simulate: str) -> None:
    """However a server writes it, the answer is the same."""
    assert (await ask(say("hello"), simulate=simulate)).text == "hello"


@pytest.mark.slow
async def test_an_input_that_cannot_fit_is_never_sent(
    ask: Callable[..., Any], simulator: Simulator
) -> None:
    """The simulator, as old servers, would cut it in silence."""
    with pytest.raises(ContextOverflowError):
        await ask(say("word " * 500_000))
    assert [request.path for request in simulator.requests] == ["/api/show"]


async def test_a_long_input_gets_the_window_that_it_needs(ask: Callable[..., Any]) -> None:
    """Where the server's own window would cut the conversation, the computed one does not."""
    request = Request(canisters=(UserCanister("remember " * 6000), UserCanister("hello")))

    response = await ask(request)

    assert response.losses == ()
    assert response.metadata.usage.input_tokens > 10_000


@pytest.mark.slow
async def test_where_the_estimate_leaves_it_open_the_server_decides(
    ask: Callable[..., Any],
) -> None:
    """Told not to cut, it refuses what we could not rule out; that is the same error."""
    request = Request(canisters=(UserCanister("word " * 110_000), UserCanister("hello")))

    with pytest.raises(ContextOverflowError) as caught:
        await ask(request)
    assert caught.value.stage is Stage.PROVIDER


async def test_a_cut_that_happens_all_the_same_is_told(ask: Callable[..., Any]) -> None:
    """An old server, which passes over what it was told, is found out by its own count."""
    request = Request(canisters=(UserCanister("word " * 20_000), UserCanister("hello")))

    response = await ask(request, simulate="context_overflow")

    assert [(loss.kind, loss.path) for loss in response.losses] == [(LossKind.DROPPED, "canisters")]


@pytest.mark.slow
async def test_the_server_is_started_when_asked(
    produce_context: Callable[..., ProviderContext],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With ``start = true`` the program on the path runs at a port of its own, while we do."""
    sources = Path(sys.modules["vibe_llms"].__file__ or "").parents[1]
    program = tmp_path / "ollama"
    program.write_text(
        f"#!{sys.executable}\n"
        "import os, runpy, sys\n"
        f"sys.path.insert(0, {str(sources)!r})\n"
        "assert sys.argv[1:] == ['serve']\n"
        "port = os.environ['OLLAMA_HOST'].rpartition(':')[2]\n"
        "sys.argv = ['ollama', '--port', port]\n"
        "runpy.run_module('vibe_llms.testing.simulator', run_name='__main__')\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    provider = produce_provider(produce_context(start=True))
    first, second = provider.produce_client(), provider.produce_client()
    model = await first.access_model("simulated-large")
    other = await second.access_model("simulated-large")

    assert (await model.converse(say("hello"))).text == "hello"
    await first.close()
    assert (await other.converse(say("again"))).text == "again"
    url = second.vendor.settings.base_url  # type: ignore[attr-defined]
    await second.close()

    late = produce_provider(produce_context(base_url=url)).produce_client()
    with pytest.raises(TransportError, match=r"ollama serve.*start = true"):
        await late.access_model("simulated-large")
    await late.close()


async def test_invocations_of_a_script_keep_their_numbers(
    ask: Callable[..., Any], simulator: Simulator
) -> None:
    """Arguments arrive in the server's order, and 1.0 stays 1.0."""
    simulator.enqueue(Invoke("weather", {"z": 1.0, "a": [2, {"b": 3}]}))

    response = await ask(say("?", invocables=(WEATHER,)))

    call = response.canisters[-1]
    assert isinstance(call, InvocationCanister)
    assert call.arguments == '{"z":1.0,"a":[2,{"b":3}]}'

"""What OpenTelemetry hears of runs and calls, through its own SDK."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from support.runs.acting import invoke, say, script
from support.runs.scripting import produce_model
from vibe_llms.application import Application
from vibe_llms.configuration.sources import load_configuration
from vibe_llms.conversations.conversation import Conversation
from vibe_llms.events.stream import ContentDeltaEvent
from vibe_llms.exceptions import ConverseError
from vibe_llms.foundation.limits import Limits
from vibe_llms.instruments.engines import Engine
from vibe_llms.instruments.models import Model
from vibe_llms.messages.canisters import SupervisorCanister, UserCanister
from vibe_llms.messages.requests import Request
from vibe_llms.telemetry.opentelemetry import OpenTelemetryObserver
from vibe_llms.telemetry.opentelemetry.conventions import CAPTURE_VARIABLE, SCHEMA_URL

SECRET = "The password is swordfish."


@attrs.define
class Lab:
    """An observer, and all that it has exported."""

    tracers: TracerProvider = attrs.field(factory=TracerProvider)
    spans_kept: InMemorySpanExporter = attrs.field(factory=InMemorySpanExporter)
    metrics_kept: InMemoryMetricReader = attrs.field(factory=InMemoryMetricReader)
    meters: MeterProvider = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.tracers.add_span_processor(SimpleSpanProcessor(self.spans_kept))
        self.meters = MeterProvider(metric_readers=[self.metrics_kept])

    def observe(self, *, captures_texts: bool | None = None) -> OpenTelemetryObserver:
        return OpenTelemetryObserver(
            captures_texts=captures_texts,
            tracer_provider=self.tracers,
            meter_provider=self.meters,
        )

    def produce_tool(self) -> Callable[..., Any]:
        """Makes a tool that has a span of its own."""

        async def look(place: str) -> str:
            """Looks at a place.

            Args:
                place: Where.
            """
            with self.tracers.get_tracer("tool").start_as_current_span(f"inside {place}"):
                await asyncio.sleep(0)
            return f"{place} is sunny."

        return look

    @property
    def spans(self) -> dict[str, ReadableSpan]:
        """By their names; of several with the same name, the last."""
        return {span.name: span for span in self.finished}

    @property
    def finished(self) -> Sequence[ReadableSpan]:
        return self.spans_kept.get_finished_spans()

    def read_metrics(self) -> dict[str, list[Any]]:
        data = self.metrics_kept.get_metrics_data()
        resources = data.resource_metrics if data else ()
        scopes = [scope for each in resources for scope in each.scope_metrics]
        metrics = [metric for scope in scopes for metric in scope.metrics]
        return {metric.name: list(metric.data.data_points) for metric in metrics}


@pytest.fixture
def lab() -> Lab:
    return Lab()


def _name_parent(lab: Lab, span: ReadableSpan) -> str | None:
    names = {each.context.span_id: each.name for each in lab.finished if each.context}
    return None if span.parent is None else names.get(span.parent.span_id, "outside")


async def look(place: str) -> str:
    """Looks at a place.

    Args:
        place: Where.
    """
    if place == "Atlantis":
        raise ValueError(SECRET)
    return f"{place} is sunny."


def _produce_model() -> Any:
    usage = {"input_tokens": 12, "output_tokens": 7, "cache_read_tokens": 5, "reasoning_tokens": 3}
    return produce_model(
        {
            "contents": [
                {"reasoning": "Hm."},
                invoke("look", "c1", place="Rome"),
                invoke("look", "c2", place="Atlantis"),
            ],
            "usage": usage,
        },
        {"contents": [say("Sunny, and nowhere.")], "usage": usage},
    )


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("has_reactors", [True, False])
async def test_a_run_is_the_parent_of_its_answers_and_tools(
    lab: Lab, stream: bool, has_reactors: bool
) -> None:
    """Also where tools run at the same time, and whether reactors tell of it, too, or not."""
    tool = lab.produce_tool()
    observer = lab.observe()
    reactors = observer.reactors if has_reactors else None
    engine = Engine(_produce_model(), [tool], listener=observer, stream=stream, reactors=reactors)

    with lab.tracers.get_tracer("program").start_as_current_span("program"):
        outcome = await engine.answer("Where is it sunny?")
        assert trace.get_current_span().name == "program"  # type: ignore[attr-defined]

    names = [span.name for span in lab.finished]
    assert len(names) == 8
    assert names.count("chat test") == names.count("execute_tool look") == 2
    parents = {span.name: _name_parent(lab, span) for span in lab.finished}
    assert parents == {
        "program": None,
        "invoke_agent": "program",
        "chat test": "invoke_agent",
        "execute_tool look": "invoke_agent",
        "inside Rome": "execute_tool look",
        "inside Atlantis": "execute_tool look",
    }
    run = lab.spans["invoke_agent"]
    assert run.attributes is not None
    assert run.attributes["gen_ai.conversation.id"] == outcome.conversation.id
    assert run.attributes["gen_ai.provider.name"] == "scripted"
    assert run.attributes["gen_ai.usage.input_tokens"] == 34
    assert run.attributes["vibe_llms.run.reason"] == "answered"
    assert run.instrumentation_scope is not None
    assert run.instrumentation_scope.schema_url == SCHEMA_URL


async def test_an_answer_is_described_by_the_words_of_the_conventions(lab: Lab) -> None:
    """Who was asked, who answered, why that ended, and tokens with what is cached or thought."""
    observer = lab.observe()
    request = Request(
        canisters=(UserCanister(SECRET),),
        controls={"temperature": 0.5, "max_tokens": 100, "stop": ["END"]},
        schema={"type": "object"},
        conversation_id="conversation",
    )

    await _produce_model().converse(request, observer.reactors)

    (span,) = lab.finished
    assert span.kind is trace.SpanKind.CLIENT
    attributes = dict(span.attributes or {})
    assert attributes.pop("gen_ai.response.time_to_first_chunk") >= 0  # type: ignore[operator]
    attributes.pop("gen_ai.response.id", None)
    assert attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "scripted",
        "gen_ai.conversation.id": "conversation",
        "gen_ai.request.model": "test",
        "gen_ai.request.stream": True,
        "gen_ai.request.temperature": 0.5,
        "gen_ai.request.max_tokens": 100,
        "gen_ai.request.stop_sequences": ("END",),
        "gen_ai.output.type": "json",
        "gen_ai.response.model": "test",
        "gen_ai.response.finish_reasons": ("tool_call",),
        "gen_ai.usage.input_tokens": 17,
        "gen_ai.usage.cache_read.input_tokens": 5,
        "gen_ai.usage.output_tokens": 10,
        "gen_ai.usage.reasoning.output_tokens": 3,
    }


async def test_durations_and_tokens_are_measured(lab: Lab) -> None:
    """As histograms, with the units and the attributes of the conventions."""
    await Engine(_produce_model(), [look], listener=lab.observe()).answer("Well?")

    metrics = lab.read_metrics()
    assert set(metrics) == {
        "gen_ai.client.token.usage",
        "gen_ai.client.operation.duration",
        "gen_ai.client.operation.time_to_first_chunk",
        "gen_ai.invoke_agent.duration",
        "gen_ai.execute_tool.duration",
    }
    tokens = {p.attributes["gen_ai.token.type"]: p for p in metrics["gen_ai.client.token.usage"]}
    assert (tokens["input"].sum, tokens["output"].sum) == (34, 20)
    assert tokens["input"].attributes["gen_ai.response.model"] == "test"
    (chats,) = metrics["gen_ai.client.operation.duration"]
    assert (chats.count, chats.attributes["gen_ai.operation.name"]) == (2, "chat")
    tools = {p.attributes.get("error.type"): p for p in metrics["gen_ai.execute_tool.duration"]}
    assert {kind: point.count for kind, point in tools.items()} == {None: 1, "tool_error": 1}
    (runs,) = metrics["gen_ai.invoke_agent.duration"]
    assert runs.count == 1


async def test_whole_answers_have_no_first_piece(lab: Lab) -> None:
    """What came in one piece is no stream, whoever tells of it."""
    observer = lab.observe()
    request = Request(canisters=(UserCanister("Well?"),))

    await _produce_model().converse(request, observer.reactors, stream=False)
    await Engine(_produce_model(), [look], listener=observer, stream=False).answer("Well?")

    assert "gen_ai.client.operation.time_to_first_chunk" not in lab.read_metrics()
    assert all("gen_ai.request.stream" not in (span.attributes or {}) for span in lab.finished)


def _write_out(lab: Lab) -> str:
    spans = [span.to_json() for span in lab.finished]
    return json.dumps(spans) + str(lab.read_metrics())


@pytest.mark.parametrize("way", ["engine", "model"])
async def test_texts_are_recorded_only_when_asked(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """Neither what was asked nor what tools were given and gave; errors quote nothing, either."""
    monkeypatch.delenv(CAPTURE_VARIABLE, raising=False)
    model = script([invoke("look", place="Atlantis"), say(SECRET)], [say(SECRET)])

    async def use(observer: OpenTelemetryObserver) -> None:
        if way == "engine":
            await Engine(model, [look], listener=observer).answer(SECRET)
        else:
            request = Request(canisters=(UserCanister(SECRET),))
            await model.converse(request, observer.reactors)

    await use(lab.observe())

    assert lab.finished
    assert "swordfish" not in _write_out(lab)
    assert "Atlantis" not in _write_out(lab)

    monkeypatch.setenv(CAPTURE_VARIABLE, "SPAN_ONLY")
    await use(lab.observe())

    assert "swordfish" in _write_out(lab)


async def test_texts_have_the_form_of_the_conventions(lab: Lab) -> None:
    """Instructions apart, then messages by role with their parts, and the answer with its end."""
    conversation = Conversation(canisters=[SupervisorCanister("Be brief."), UserCanister("Well?")])
    engine = Engine(_produce_model(), [look], listener=lab.observe(captures_texts=True))

    await engine.answer(conversation)

    chat = lab.spans["chat test"].attributes or {}
    assert json.loads(str(chat["gen_ai.system_instructions"])) == [
        {"type": "text", "content": "Be brief."}
    ]
    assert json.loads(str(chat["gen_ai.output.messages"])) == [
        {
            "role": "assistant",
            "parts": [{"type": "text", "content": "Sunny, and nowhere."}],
            "finish_reason": "stop",
        }
    ]
    user, assistant, tool = json.loads(str(chat["gen_ai.input.messages"]))
    assert user == {"role": "user", "parts": [{"type": "text", "content": "Well?"}]}
    assert [part["type"] for part in assistant["parts"]] == ["reasoning", "tool_call", "tool_call"]
    assert assistant["parts"][1] == {
        "type": "tool_call",
        "id": "c1",
        "name": "look",
        "arguments": {"place": "Rome"},
    }
    assert (tool["role"], tool["parts"][0]["response"]) == ("tool", "Rome is sunny.")
    tools = [span.attributes or {} for span in lab.finished if span.name == "execute_tool look"]
    told = {str(each["gen_ai.tool.call.arguments"]) for each in tools}
    assert told == {'{"place":"Rome"}', '{"place":"Atlantis"}'}


@pytest.mark.parametrize("way", ["listener", "reactors"])
async def test_a_failure_has_its_type_and_no_message(lab: Lab, way: str) -> None:
    """The answer fails, and so does the run that was for it."""
    model = produce_model(
        {"contents": [say("abcdefgh")], "chunk_characters": 2}
        | {"fault": {"at_chunk": 1, "kind": "overloaded"}}
    )
    observer = lab.observe()

    if way == "listener":
        outcome = await Engine(model, listener=observer).answer("Well?")
        assert outcome.error is not None
        run = lab.spans["invoke_agent"]
        assert (run.attributes or {})["error.type"] == "overloaded"
        assert run.status.status_code is trace.StatusCode.ERROR
    else:
        with pytest.raises(ConverseError):
            await model.converse(Request(canisters=(UserCanister("Well?"),)), observer.reactors)

    chat = lab.spans["chat test"]
    assert (chat.attributes or {})["error.type"] == "overloaded"
    assert (chat.status.status_code, chat.status.description) == (
        trace.StatusCode.ERROR,
        "overloaded",
    )
    (duration,) = lab.read_metrics()["gen_ai.client.operation.duration"]
    assert duration.attributes["error.type"] == "overloaded"


async def test_a_limit_is_no_failure(lab: Lab) -> None:
    """It is how the run ended, and which limit it was."""
    engine = Engine(_produce_model(), [look], listener=lab.observe(), limits=Limits(run_steps=1))

    await engine.answer("Well?")

    attributes = lab.spans["invoke_agent"].attributes or {}
    assert attributes["vibe_llms.run.reason"] == "limit"
    assert attributes["vibe_llms.run.limit"] == "run_steps"
    assert "error.type" not in attributes


async def test_what_is_cancelled_ends_its_spans(lab: Lab) -> None:
    """A run that is cancelled in the midst of its tools leaves no span open."""
    started = asyncio.Event()

    async def hang(number: int) -> str:
        """Hangs.

        Args:
            number: Which.
        """
        started.set()
        await asyncio.Event().wait()
        return ""

    model = script([invoke("hang", "a", number=1), invoke("hang", "b", number=2)])
    engine = Engine(model, [hang], listener=lab.observe())
    task = asyncio.create_task(engine.answer("Well?"))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    kinds = [(span.name, (span.attributes or {}).get("error.type")) for span in lab.finished]
    assert ("invoke_agent", None) in kinds
    assert kinds.count(("execute_tool hang", "cancelled")) >= 1
    assert (lab.spans["invoke_agent"].attributes or {})["vibe_llms.run.reason"] == "cancelled"


async def test_a_stream_that_somebody_leaves_is_cancelled(lab: Lab) -> None:
    """And leaves nothing behind that later spans would take for their parent."""
    model = script([say("abcdefgh" * 20)], chunk_characters=2)
    request = Request(canisters=(UserCanister("Well?"),))

    async with model.stream(request, lab.observe().reactors) as stream:
        async for event in stream:
            if isinstance(event, ContentDeltaEvent):
                break

    (span,) = lab.finished
    assert (span.attributes or {})["error.type"] == "cancelled"
    assert trace.get_current_span() is trace.INVALID_SPAN


async def test_runs_at_the_same_time_keep_to_themselves(lab: Lab) -> None:
    """One observer hears of many; each answer stands under its own run."""
    observer = lab.observe()
    engine = Engine(
        script([invoke("look", place="Rome")], [say("Yes.")]), [look], listener=observer
    )

    outcomes = await asyncio.gather(*(engine.answer("Well?") for _ in range(5)))

    runs = {
        span.context.span_id: (span.attributes or {})["gen_ai.conversation.id"]
        for span in lab.finished
        if span.name == "invoke_agent" and span.context
    }
    assert set(runs.values()) == {outcome.conversation.id for outcome in outcomes}
    chats = [span for span in lab.finished if span.name == "chat test"]
    assert len(chats) == 10
    for chat in chats:
        assert chat.parent is not None
        assert runs[chat.parent.span_id] == (chat.attributes or {})["gen_ai.conversation.id"]


async def test_a_run_within_a_tool_is_below_that_tool(lab: Lab) -> None:
    """An engine that another engine uses as a tool keeps its place."""
    observer = lab.observe()
    inner = Engine(script([say("Rome.")]), listener=observer)

    async def consult(question: str) -> str:
        """Asks somebody else.

        Args:
            question: What.
        """
        return (await inner.answer(question)).text

    outer = Engine(
        script([invoke("consult", question="Where?")], [say("In Rome.")]),
        [consult],
        listener=observer,
    )
    await outer.answer("Well?")

    parents = [(span.name, _name_parent(lab, span)) for span in lab.finished]
    assert parents == [
        ("chat test", "invoke_agent"),
        ("chat test", "invoke_agent"),
        ("invoke_agent", "execute_tool consult"),
        ("execute_tool consult", "invoke_agent"),
        ("chat test", "invoke_agent"),
        ("invoke_agent", None),
    ]


@pytest.fixture
def configure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Application]:
    """Makes an application with these variables of the environment."""

    def produce(**variables: str) -> Application:
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("VIBE_LLMS_MODEL", "scripted:echo")
        for name, value in variables.items():
            monkeypatch.setenv(f"VIBE_LLMS_TELEMETRY_{name}", value)
        monkeypatch.chdir(tmp_path)
        return Application(load_configuration(command_line={}))

    return produce


async def test_a_setting_switches_it_on(
    lab: Lab, configure: Callable[..., Application], monkeypatch: pytest.MonkeyPatch
) -> None:
    """``telemetry.opentelemetry`` is off by default; on, every model and engine is observed."""
    monkeypatch.setattr(trace, "get_tracer", lambda *_, **__: lab.tracers.get_tracer("any"))
    silent = configure()
    assert (await silent.produce_reactors(), await silent.produce_listeners()) == ([], [])

    application = configure(OPENTELEMETRY="true")
    async with Model(application=application) as model:
        await model.ask(SECRET)
        await Engine(model).answer(SECRET)

    assert [span.name for span in lab.finished] == ["chat echo", "chat echo", "invoke_agent"]
    assert "swordfish" not in _write_out(lab)


async def test_texts_are_another_setting(
    lab: Lab, configure: Callable[..., Application], monkeypatch: pytest.MonkeyPatch
) -> None:
    """``telemetry.texts`` wants them, too."""
    monkeypatch.setattr(trace, "get_tracer", lambda *_, **__: lab.tracers.get_tracer("any"))

    async with Model(application=configure(OPENTELEMETRY="true", TEXTS="true")) as model:
        await model.ask(SECRET)

    assert "swordfish" in _write_out(lab)


async def test_without_the_package_everything_goes_on(
    configure: Callable[..., Application],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One warning says what is missing and how to get it; answers come all the same."""
    monkeypatch.setitem(__import__("sys").modules, "opentelemetry", None)
    application = configure(OPENTELEMETRY="true")

    async with Model(application=application) as model:
        assert (await model.ask("Hello")).text
        assert (await Engine(model).answer("Hello")).text

    assert [record.getMessage() for record in caplog.records] == [
        "Tracing needs opentelemetry-api, which is not installed. Install it: "
        f'"{sys.executable}" -m pip install "opentelemetry-api>=1.30"'
    ]

"""What a log says of a run whose requests are answered later, and what becomes of that."""

from __future__ import annotations

from datetime import UTC, datetime

import attrs
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from vibe_llms.conversations.run_logs.log import LoggedEvent
from vibe_llms.conversations.run_logs.log_lines import write_logged
from vibe_llms.engine.recovery import Record
from vibe_llms.events.codec import decode_event, encode_event
from vibe_llms.events.engine import (
    GenerationAnsweredEvent,
    GenerationDeferredEvent,
    GenerationFinishedEvent,
    GenerationStartedEvent,
    RunStartedEvent,
    RunSuspendedEvent,
)
from vibe_llms.events.flow import LogEvent
from vibe_llms.interfaces.cli.runs.event_texts import describe_event
from vibe_llms.messages.canisters import StopReason, Usage, UserCanister
from vibe_llms.runs.compacting import shorten
from vibe_llms.runs.summaries import summarize
from vibe_llms.telemetry.odometer import Odometer
from vibe_llms.telemetry.opentelemetry import OpenTelemetryObserver

MODEL = "anthropic:claude-sonnet-4-5"
STARTED = GenerationStartedEvent(key="u1", turn=1, model=MODEL)
DEFERRED = GenerationDeferredEvent(key="u1", turn=1, model=MODEL, backend="d")
ANSWERED = GenerationAnsweredEvent(key="u1", fate="answered", body="{}", message_id="c-0")
FINISHED = GenerationFinishedEvent(
    key="u1",
    turn=1,
    model=MODEL,
    provider="anthropic",
    stop_reason=StopReason.ANSWERED,
    usage=Usage(input_tokens=1_000, output_tokens=1_000),
    canisters=1,
    tier="batch",
)
BEGUN = RunStartedEvent(run_id="r", conversation_id="r", length=1, model=MODEL)
SUSPENDED = RunSuspendedEvent(run_id="r", digests=())


def log(*events: LogEvent) -> list[LoggedEvent]:
    return [
        LoggedEvent(sequence=number, timestamp=datetime.now(UTC), run_id="r", event=event)
        for number, event in enumerate(events, 1)
    ]


def test_a_deferred_run_waits_until_it_is_answered() -> None:
    """It says for what; and whatever came of its request, somebody has to go on with it."""
    deferred = [BEGUN, STARTED, DEFERRED, SUSPENDED]

    waiting, due = summarize(log(*deferred)), summarize(log(*deferred, ANSWERED))
    again = summarize(log(*deferred, ANSWERED, BEGUN, FINISHED, SUSPENDED))

    assert (waiting.state, waiting.detail) == (
        "waiting",
        "It waits for a vendor's batch.",
    )
    assert (due.state, due.detail) == ("due", "")
    assert (again.state, again.detail) == ("waiting", "")


def test_an_answer_counts_until_it_is_in_the_conversation() -> None:
    """Of what was not sent nothing is kept; and a request that is deferred is in no doubt."""
    record = Record.read([STARTED, DEFERRED])
    assert record.generation is None
    record.add(attrs.evolve(ANSWERED, fate="unsent"))
    assert record.answers == {}
    record.add(ANSWERED)
    assert record.answers == {"u1": ANSWERED}
    record.add(FINISHED)
    assert record.answers == {}


@pytest.mark.parametrize(("count", "body"), [(2, ""), (1, "{}")])
def test_a_log_that_is_compacted_loses_answers_that_the_conversation_has(
    count: int, body: str
) -> None:
    """One that was never read stays whole."""
    canisters = [UserCanister("Hello.", id="u1"), UserCanister("More.", id="u2")][:count]
    lines = [write_logged(each) for each in log(ANSWERED)]

    (line,) = shorten(lines, canisters)

    assert (f'"body":"{body}"' in line.decode()) or (not body and '"body"' not in line.decode())


@pytest.mark.parametrize("event", [DEFERRED, ANSWERED])
def test_events_are_read_as_they_were_written_and_told_of(event: LogEvent) -> None:
    """In a log, in an inbox and over HTTP; and to people, in a few words."""
    assert decode_event(encode_event(event)) == event  # type: ignore[arg-type]
    assert "batch" in describe_event(event)
    assert describe_event(SUSPENDED) == ""


def test_an_odometer_prices_an_answer_of_a_batch_at_half() -> None:
    """Of the two tellings of one generation the later one counts."""
    odometer = Odometer()
    for event in (STARTED, DEFERRED, SUSPENDED, BEGUN, FINISHED):
        odometer(event)

    (model,) = odometer.account.models
    assert model.generations == 1
    assert model.failures == 0
    assert float(model.amount or 0) == pytest.approx((3 + 15) / 2_000)


def test_spans_of_a_deferred_request_end_well_and_count_its_tokens_once() -> None:
    """The first says that it was asked, the second what came of it, hours later."""
    exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
    tracers = TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    observer = OpenTelemetryObserver(
        tracer_provider=tracers, meter_provider=MeterProvider(metric_readers=[reader])
    )

    for event in (BEGUN, STARTED, DEFERRED, SUSPENDED, BEGUN, FINISHED, SUSPENDED):
        observer(event)

    spans = exporter.get_finished_spans()
    chats = [span for span in spans if span.name.startswith("chat")]
    assert len(chats) == 2
    assert all(span.status.is_ok or span.status.is_unset for span in spans)
    told = [(span.attributes or {}).get("gen_ai.usage.output_tokens") for span in chats]
    assert told == [None, 1_000]
    data = reader.get_metrics_data()
    assert data is not None
    metrics = [
        metric
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
    ]
    (tokens,) = [each for each in metrics if each.name == "gen_ai.client.token.usage"]
    assert [point.sum for point in tokens.data.data_points] == [1_000, 1_000]  # type: ignore[union-attr]

"""One-line descriptions of a run's state and events."""

from __future__ import annotations

from vibe_llms.conversations.run_logs.log import LoggedEvent
from vibe_llms.events.engine import (
    ApprovalAnsweredEvent,
    ApprovalRequestedEvent,
    GenerationAnsweredEvent,
    GenerationDeferredEvent,
    GenerationDoubtedEvent,
    GenerationFailedEvent,
    GenerationFinishedEvent,
    GenerationQueuedEvent,
    GenerationStartedEvent,
    InvocationFinishedEvent,
    InvocationStartedEvent,
    RunEndedEvent,
    RunStartedEvent,
    RunSuspendedEvent,
)
from vibe_llms.events.flow import (
    FlowEndedEvent,
    FlowStartedEvent,
    LogEvent,
    NodeFinishedEvent,
    NodeStartedEvent,
)
from vibe_llms.events.runs import (
    ApprovalRefusedEvent,
    MessageReceivedEvent,
    RunContinuedEvent,
    RunDetachedEvent,
    RunRequestedEvent,
    RunResumedEvent,
    RunRetriedEvent,
    StopRequestedEvent,
)
from vibe_llms.flows.number_texts import describe_cost, describe_reason, describe_tokens
from vibe_llms.interfaces.cli.output import reveal, shorten, write_count
from vibe_llms.messages.canisters import AnyCanister, Usage
from vibe_llms.messages.views import text_of
from vibe_llms.runs.summaries import RunSummary, describe_ending

_COLUMNS = 100
ANSWERED = {"allow": "Allowed", "deny": "Denied", "edit": "Allowed with other arguments"}
"""Effects of an answer to a call, for messages; by its decision."""

_DECISIONS = {"allow": "allowed", "deny": "denied", "edit": "allowed with other arguments"}


def describe_spending(summary: RunSummary) -> str:
    """Describe a run's known usage."""
    parts = (
        write_count(summary.visits, "visit") if summary.kind == "flow" else "",
        write_count(summary.answers, "answer"),
        write_count(summary.invocations, "call") if summary.invocations else "",
        describe_tokens(summary.tokens) if summary.tokens else "",
        describe_cost(summary.cents),
    )
    return " · ".join(part for part in parts if part)


def describe_logged(logged: LoggedEvent) -> str:
    """Describe a logged event with its number and time; empty for events that users do not need."""
    text = describe_event(logged.event)
    moment = logged.timestamp.astimezone().strftime("%H:%M:%S")
    return f"{logged.sequence:>4}  {moment}  {text}" if text else ""


def describe_event(event: LogEvent) -> str:
    """Describe an event; empty for events that users do not need."""
    return _describe_step(event) or _describe_message(event) or _describe_node(event)


def _describe_step(event: LogEvent) -> str:
    match event:
        case RunStartedEvent():
            return f"started with {event.model}" if event.model else "started"
        case GenerationStartedEvent():
            return f"asks {event.model}"
        case GenerationFinishedEvent():
            return _join("answered", _describe_usage(event.usage), describe_cost(event.cents))
        case GenerationFailedEvent():
            times = f" after {event.attempts} attempts" if event.attempts > 1 else ""
            if event.response_id:
                return f"no answer yet; the vendor may still complete {event.response_id}"
            return f"no answer{times}: {event.error}" if event.error else "the answer was cancelled"
        case GenerationDoubtedEvent():
            return f"{event.model} may have been asked before, and billed without an answer"
        case GenerationQueuedEvent():
            return f"is answered in the background ({event.response_id})"
        case GenerationDeferredEvent():
            return "waits for the vendor's batch"
        case GenerationAnsweredEvent():
            return f"the vendor's batch ended ({event.fate})"
        case ApprovalRequestedEvent():
            return f"requests the call {_describe_call(event.name, event.arguments)}"
        case InvocationStartedEvent():
            return f"calls {_describe_call(event.name, event.arguments)}"
        case InvocationFinishedEvent():
            failed = " failed" if event.is_fault else ""
            return _cut(f"{event.name}{failed}: {text_of(event.result)}")
        case RunSuspendedEvent() if event.digests:
            return f"awaits {write_count(len(event.digests), 'approval')}"
        case RunEndedEvent():
            return _cut(f"{describe_ending(event.reason, event.limit)} {event.detail}".rstrip())
        case FlowEndedEvent():
            return _cut(f"{describe_reason(event)} {event.detail}".rstrip())
    return ""


def _describe_message(event: LogEvent) -> str:
    match event:
        case RunRequestedEvent():
            return f"requested{_by(event.subject)}"
        case ApprovalAnsweredEvent():
            reason = f": {event.reason}" if event.reason else ""
            return _cut(f"{event.name} {_DECISIONS[event.decision]}{_by(event.subject)}{reason}")
        case ApprovalRefusedEvent():
            return f"a late answer{_by(event.subject)} was ignored: another arrived first"
        case MessageReceivedEvent():
            return _cut(f"receives{_by(event.subject)}: {_read_text(event.canister)}")
        case RunResumedEvent():
            return f"resume requested{_by(event.subject)}"
        case RunDetachedEvent():
            return f"continues without watchers{_by(event.subject)}"
        case StopRequestedEvent():
            return _cut(f"stop requested{_by(event.subject)}: {event.reason}".removesuffix(": "))
        case RunContinuedEvent():
            return f"continues in {event.conversation}, which begins with a summary"
        case RunRetriedEvent(attempt=0):
            return "its worker released it to the next one"
        case RunRetriedEvent():
            return _cut(f"retries in {event.seconds:g} s: {event.detail}")
    return ""


def _describe_node(event: LogEvent) -> str:
    match event:
        case FlowStartedEvent():
            return "the flow starts"
        case NodeStartedEvent():
            return f"{event.node} starts" + (f" ({event.purpose})" if event.purpose else "")
        case NodeFinishedEvent():
            result = event.detail or event.response or ""
            return _cut(f"{event.node} completed: {result}".removesuffix(": "))
    return ""


def _describe_call(name: str, arguments: str) -> str:
    return _cut(f"{name} {reveal(arguments)}")


def _describe_usage(usage: Usage | None) -> str:
    if usage is None:
        return ""
    tokens = (usage.total_input_tokens or 0) + (usage.total_output_tokens or 0)
    return describe_tokens(tokens)


def _join(*parts: str) -> str:
    return " · ".join(part for part in parts if part)


def _by(subject: str) -> str:
    return f" by {subject}" if subject else ""


def _cut(text: str) -> str:
    return shorten(text, _COLUMNS)


def _read_text(canister: AnyCanister) -> str:
    return text_of(canister) or "content other than text"

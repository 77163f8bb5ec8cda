"""Replay of a stored run without a model and without tools.

At each event in the log, the engine's machine decides from the conversation as it was then, and
the decision is compared with what the run did. A variant (another model, tools, settings or
instructions) is compared with the sent requests: the first step that would send something else is
the first that differs. Later steps would follow from another history, and prove nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import attrs

from vibe_llms.conversations.conversation import Conversation
from vibe_llms.conversations.run_logs.log import LoggedEvent
from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.engine.limits import Readings
from vibe_llms.engine.machine import Await, Command, End, Execute, Generate, decide
from vibe_llms.engine.prepared_calls import find_denial
from vibe_llms.engine.recovery import Record
from vibe_llms.engine.run_status import STATES, ModelTurn, find_situation, read_turn
from vibe_llms.engine.tails import read_tail
from vibe_llms.events.engine import (
    ApprovalRequestedEvent,
    GenerationFinishedEvent,
    GenerationStartedEvent,
    InvocationFinishedEvent,
    InvocationStartedEvent,
    RunEndedEvent,
    RunStartedEvent,
    StateEnteredEvent,
)
from vibe_llms.events.flow import LogEvent
from vibe_llms.exceptions import StoreError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonValue
from vibe_llms.foundation.limits import Limits
from vibe_llms.invocables.ensembles import FunctionsEnsemble
from vibe_llms.invocables.invokers import Effect, Invoker
from vibe_llms.invocables.registry import Registry
from vibe_llms.messages.canisters import AnyCanister, SupervisorCanister
from vibe_llms.messages.views import text_of
from vibe_llms.runs.earlier_calls import survey_inherited
from vibe_llms.runs.summaries import summarize


@frozen(kw_only=True)
class Variant:
    """Changes to the requests; a value of ``None`` means unchanged.

    Attributes:
        model: Address of the model.
        instructions: Instructions to the model.
        pattern: Digests of tools and settings, as :func:`.engine.patterns.digest_pattern` makes
            them.
    """

    model: str | None = None
    instructions: str | None = None
    pattern: Mapping[str, str] | None = None


@frozen(kw_only=True)
class ReplayStep:
    """One step of a replay.

    Attributes:
        sequence: Number of the event that records the step.
        step: Action of the run, as a stable word: a state of the engine, or a kind of node.
        detail: More about the step, for people.
        length: Number of canisters sent, if a model was asked; otherwise 0.
        difference: Difference from the run; empty if there is none.
        run_id: Id of the conversation if it is a visit of a flow; otherwise empty.
    """

    sequence: int
    step: str
    detail: str = ""
    length: int = 0
    difference: str = ""
    run_id: str = ""


@frozen(kw_only=True)
class Replay:
    """Result of a replay.

    Attributes:
        identity: Id of the run.
        state: State of the run according to its log.
        steps: All steps up to and including the first that differs.
        remarks: Notes on what could not be compared.
    """

    identity: str
    state: str
    steps: tuple[ReplayStep, ...]
    remarks: tuple[str, ...] = ()

    @property
    def difference(self) -> ReplayStep | None:
        """First step that differs; ``None`` if none does."""
        return next((step for step in self.steps if step.difference), None)


async def replay_run(
    store: ConversationStore, identity: str, variant: Variant | None = None
) -> Replay:
    """Replay the runs of a stored conversation. Does file work.

    Raises:
        UnknownConversationError: The conversation does not exist.
        StoreError: It has no run.
        CorruptionError: The conversation or its log cannot be read.
    """
    conversation = Conversation.restore(store, identity)
    logged = store.open_log(identity).read()
    if not logged:
        raise StoreError(detail=f"{identity} has no run to replay.")
    events = [each.event for each in logged]
    async with Registry([_produce_recorded(events, conversation.canisters)]) as registry:
        replayer = _Replayer(conversation.canisters, events, registry, variant or Variant())
        replayer.events += survey_inherited(store, conversation)
        replayer.perform(logged)
    if base := max(each.sequence if each.kept else 0 for each in logged):
        replayer.remarks.append(
            f"The log was compacted up to event {base}: the states before it are gone."
        )
    return Replay(
        identity=identity,
        state=summarize(logged, identity).state,
        steps=tuple(replayer.steps),
        remarks=tuple(dict.fromkeys(replayer.remarks)),
    )


def _produce_recorded(
    events: Sequence[LogEvent], canisters: Sequence[AnyCanister]
) -> FunctionsEnsemble:
    """Return the recorded invocables, as far as the log describes them; nothing is executed."""
    effects: dict[str, str] = {}
    approved_names: set[str] = set()
    for event in events:
        if isinstance(event, (ApprovalRequestedEvent, InvocationStartedEvent)):
            effects[event.name] = event.effect or Effect.ONCE.value
        if isinstance(event, ApprovalRequestedEvent) and not event.in_doubt:
            approved_names.add(event.name)
    finals = _find_finals(events, canisters)
    for canister in canisters:
        if canister.role == "invocation":
            effects.setdefault(canister.name, Effect.ONCE.value)
    invokers = [
        Invoker(
            name=name,
            description="As recorded.",
            schema={"type": "object"},
            function=_refuse,
            effect=Effect(effect),
            needs_approval=name in approved_names,
            is_final=name in finals,
        )
        for name, effect in effects.items()
    ]
    return FunctionsEnsemble("recorded", invokers)


def _refuse() -> None:
    raise AssertionError("a replay executes nothing")


def _find_finals(events: Sequence[LogEvent], canisters: Sequence[AnyCanister]) -> set[str]:
    """Return names of invocables whose result ended a run: the answer was not the model's."""
    places = {each.id: index for index, each in enumerate(canisters)}
    found: set[str] = set()
    result: InvocationFinishedEvent | None = None
    for event in events:
        if isinstance(event, InvocationFinishedEvent) and not event.result.is_error:
            result = event
        elif isinstance(event, GenerationStartedEvent):
            result = None
        elif (
            isinstance(event, RunEndedEvent)
            and event.reason == "answered"
            and result is not None
            and result.result.id in places
        ):
            found.add(result.name)
    return found


class _Replayer:
    """Walk through a log, event by event."""

    def __init__(
        self,
        canisters: Sequence[AnyCanister],
        events: Sequence[LogEvent],
        registry: Registry,
        variant: Variant,
    ) -> None:
        self.steps: list[ReplayStep] = []
        self.remarks: list[str] = []
        self.events: list[LogEvent] = []
        self._canisters = canisters
        self._positions = {each.id: index for index, each in enumerate(canisters)}
        self._registry = registry
        self._variant = variant
        # A call without an approval request did not need one: its arguments were invalid, or an
        # earlier answer applied to all calls of its kind.
        asked_keys = {each.key for each in events if isinstance(each, ApprovalRequestedEvent)}
        self._unasked = {
            each.id: True
            for each in canisters
            if each.role == "invocation" and each.id not in asked_keys
        }
        self._pattern: Mapping[str, JsonValue] = {}
        self._length = 0
        self._last_turn: ModelTurn | None = None
        self._started: RunStartedEvent | None = None
        self._command: Command | None = None

    def perform(self, logged: Sequence[LoggedEvent]) -> None:
        """Process events until the first step that differs."""
        for each in logged:
            step = self._check(each)
            if step is not None:
                self.steps.append(step)
                if step.difference:
                    return
            self._follow(each.event)
            self.events.append(each.event)

    # --- comparisons -----------------------------------------------------------------------

    def _check(self, logged: LoggedEvent) -> ReplayStep | None:
        number, event = logged.sequence, logged.event
        match event:
            case GenerationStartedEvent():
                return self._check_generation(number, event)
            case StateEnteredEvent(state="await" | "execute"):
                return self._check_state(number, event.state)
            case ApprovalRequestedEvent():
                return self._check_call(number, event.key, event.name, Await)
            case InvocationStartedEvent():
                return self._check_call(number, event.key, event.name, Execute)
            case RunEndedEvent():
                return self._check_end(number, event)
        return None

    def _check_generation(self, number: int, event: GenerationStartedEvent) -> ReplayStep:
        place = self._positions.get(event.key)
        if place is None:
            return _differ(number, "generate", "the sent messages are not in the conversation")
        command = self._decide(place + 1)
        step = ReplayStep(
            sequence=number,
            step="generate",
            detail=f"{event.model}, {place + 1} canisters",
            length=place + 1,
        )
        difference = ""
        if not isinstance(command, Generate) or command.length != place + 1:
            difference = f"the engine would {_word(command)}"
        return attrs.evolve(step, difference=difference or self._compare(event, place + 1))

    def _compare(self, event: GenerationStartedEvent, length: int) -> str:
        """Return what would differ in a request."""
        variant, found = self._variant, list[str]()
        self._pattern = event.pattern or self._pattern
        if variant.model is not None and variant.model != event.model:
            found.append(f"the model is {variant.model}, not {event.model}")
        for name, digest in (variant.pattern or {}).items():
            if not self._pattern:
                self.remarks.append(
                    "The log does not record the tools and settings of the request."
                )
            elif self._pattern.get(name) != digest:
                found.append(f"the {name} differ")
        if variant.instructions is not None:
            instructions = _find_instructions(self._canisters[:length])
            if instructions != variant.instructions:
                found.append("the instructions differ")
        return "; ".join(found)

    def _check_state(self, number: int, state: str) -> ReplayStep:
        command = self._command = self._decide(self._length)
        if STATES[type(command)] != state:
            return _differ(number, state, f"the engine would {_word(command)}")
        calls = command.calls if isinstance(command, (Await, Execute)) else ()
        names = ", ".join(
            call.canister.name + (" (denied)" if find_denial(call) else "") for call in calls
        )
        return ReplayStep(sequence=number, step=state, detail=names)

    def _check_call(
        self, number: int, key: str, name: str, kind: type[Await] | type[Execute]
    ) -> ReplayStep | None:
        command = self._command
        if not isinstance(command, kind) or key not in [call.key for call in command.calls]:
            command = self._command = self._decide(self._length)
        if isinstance(command, kind) and key in [call.key for call in command.calls]:
            return None  # the step is that of its turn
        return _differ(number, STATES[kind].value, f"{name}: the engine would {_word(command)}")

    def _check_end(self, number: int, event: RunEndedEvent) -> ReplayStep:
        step = ReplayStep(sequence=number, step="terminate", detail=event.limit or event.reason)
        if event.reason in ("cancelled", "failed") or event.limit == "run_seconds":
            return step  # external input is reported; no decision leads to it
        if event.limit.startswith("run_"):
            allowed = self._started.limits.get(event.limit) if self._started else None
            used = event.readings.get(event.limit.removeprefix("run_"))
            if isinstance(allowed, (int, float)) and isinstance(used, (int, float)):
                reached = used >= allowed
                return attrs.evolve(step, difference="" if reached else "the limit is not reached")
            return step
        command = self._decide(self._length)
        if isinstance(command, End) and (command.reason, command.limit) == (
            event.reason,
            event.limit,
        ):
            return step
        return attrs.evolve(step, difference=f"the engine would {_word(command)}")

    def _decide(self, length: int) -> Command:
        canisters = self._canisters[:length]
        record = Record.read(self.events)
        record.invalid_arguments.update(self._unasked)
        situation = find_situation(
            canisters, read_tail(canisters), self._registry, record, last_turn=self._last_turn
        )
        # A run that continued had not reached a limit; one that reached a limit says so.
        return decide(situation, Readings(), Limits())

    # --- length of the conversation --------------------------------------------------------

    def _follow(self, event: LogEvent) -> None:
        match event:
            case RunStartedEvent():
                self._started, self._length, self._last_turn = event, event.length, None
                self._command, self._pattern = None, {}
            case GenerationStartedEvent():
                self._length = self._positions[event.key] + 1  # else it has differed there
                self._command = None
            case GenerationFinishedEvent() if event.key in self._positions:
                self._length = self._positions[event.key] + 1 + event.canisters
                self._last_turn = read_turn(event, self._last_turn)
            case InvocationFinishedEvent() if event.result.id in self._positions:
                self._length = max(self._length, self._positions[event.result.id] + 1)


def _find_instructions(canisters: Sequence[AnyCanister]) -> str:
    supervisors = [each for each in canisters if isinstance(each, SupervisorCanister)]
    return text_of(supervisors[-1]) if supervisors else ""


def _differ(number: int, step: str, difference: str) -> ReplayStep:
    return ReplayStep(sequence=number, step=step, difference=difference)


def _word(command: Command) -> str:
    if isinstance(command, End):
        return f"end ({command.limit or command.reason.value})"
    calls = command.calls if isinstance(command, Await | Execute) else ()
    names = ", ".join(call.canister.name for call in calls)
    return f"{STATES[type(command)].value} {names}".strip()

"""What a run's log decides about calls, answers and approvals; what is examined of calls."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import attrs

from vibe_llms.engine.prepared_calls import examine_pending
from vibe_llms.engine.recovery import Record
from vibe_llms.events.engine import (
    ApprovalAnsweredEvent,
    GenerationAnsweredEvent,
    GenerationDeferredEvent,
    GenerationDoubtedEvent,
    GenerationFailedEvent,
    GenerationFinishedEvent,
    GenerationStartedEvent,
    InvocationFinishedEvent,
    InvocationStartedEvent,
)
from vibe_llms.exceptions import RequestError, UnknownNameError
from vibe_llms.invocables.invokers import Effect
from vibe_llms.messages.canisters import (
    AssistantCanister,
    InvocationCanister,
    ResultCanister,
    StopReason,
)

BEGUN = InvocationStartedEvent(
    key="k", invocation_id="i", name="pay", arguments="{}", effect="once", idempotency_key="k"
)
RESULT = ResultCanister("paid", invocation_id="i", name="pay")
ENDED = InvocationFinishedEvent(key="k", invocation_id="i", name="pay", result=RESULT)
ALLOWED = ApprovalAnsweredEvent(key="k", name="pay", digest="d", decision="allow", scope="once")
ASKED = GenerationStartedEvent(key="g", turn=1, model="m")
DEFERRED = GenerationDeferredEvent(key="g", turn=1, model="m", backend="d")
ANSWERED = GenerationAnsweredEvent(key="g", fate="answered")
DONE = GenerationFinishedEvent(
    key="g", turn=1, model="m", provider="p", canisters=1, stop_reason=StopReason.ANSWERED
)
ARRIVED = AssistantCanister("half", turn_id="t")
BROKEN = GenerationFailedEvent(key="g", turn=1, model="m", canisters=(ARRIVED,))
DOUBTED = GenerationDoubtedEvent(key="g", turn=1, model="m")


def test_a_call_that_has_begun_is_open_until_it_has_a_result() -> None:
    """Its result may come without that it is known to have begun."""
    assert Record.read([BEGUN]).started == {"k": BEGUN}
    for events in ([BEGUN, ENDED], [ENDED]):
        record = Record.read(events)
        assert (record.started, record.results) == ({}, {"k": RESULT})
    assert Record.read([attrs.evolve(BEGUN, key="x"), ENDED]).started.keys() == {"x"}


def test_a_model_is_being_asked_until_something_came_of_it_or_it_is_deferred() -> None:
    assert Record.read([ASKED]).generation == ASKED
    assert Record.read([ASKED, DEFERRED, ASKED]).generation == ASKED
    for event in (DEFERRED, DONE, BROKEN, DOUBTED):
        assert Record.read([ASKED, event]).generation is None
    assert Record.read([BROKEN]).broken == {ARRIVED.id}
    assert Record.read([DONE, DOUBTED]).broken == set()


def test_an_answer_to_what_was_deferred_stays_until_it_is_in_the_conversation() -> None:
    """One that was not sent is none."""
    assert Record.read([ANSWERED]).answers == {"g": ANSWERED}
    assert Record.read([attrs.evolve(ANSWERED, fate="unsent")]).answers == {}
    for event in (DONE, BROKEN, DOUBTED):
        assert Record.read([ANSWERED, event]).answers == {}
    assert Record.read([ANSWERED, attrs.evolve(DONE, key="other")]).answers == {"g": ANSWERED}


def test_an_approval_holds_as_far_as_it_says() -> None:
    """For one call until that begins, for each identical one, or for all of the name."""
    call, always = (
        attrs.evolve(ALLOWED, key="x", digest=digest, scope=scope, reason=scope)
        for digest, scope in (("d", "call"), ("e", "always"))
    )

    def find(record: Record, key: str, digest: str, name: str = "pay", *, doubt: bool) -> Any:
        return record.find_approval(key, digest, name, in_doubt=doubt)

    record = Record.read([ALLOWED])
    assert not record.has_standing_answers
    assert find(record, "k", "d", doubt=True) == find(record, "k", "d", doubt=False) == ALLOWED
    assert find(record, "k", "e", doubt=False) is None
    assert find(record, "l", "d", doubt=False) is None
    record.add(BEGUN)
    assert find(record, "k", "d", doubt=False) is None
    record.add(BEGUN)  # nothing is taken back twice

    for answer, others in ((call, [("d", "mail")]), (always, [("f", "pay"), ("e", "pay")])):
        record = Record.read([answer])
        assert record.has_standing_answers
        for digest, name in others:
            assert find(record, "k", digest, name, doubt=False) == answer
            assert find(record, "k", digest, name, doubt=True) is None
        assert find(record, "k", "f", "mail", doubt=False) is None
    both = Record.read([call, always, attrs.evolve(ALLOWED, key="y", digest="other")])
    assert find(both, "k", "d", doubt=False) == call
    assert find(both, "k", "z", doubt=False) == always
    assert find(both, "y", "other", doubt=False).scope == "once"


class Examined:
    """What calls name; it notes what it is asked to examine."""

    def __init__(self) -> None:
        self.asked: list[Any] = []

    def access(self, name: str) -> Any:
        if name == "gone":
            raise UnknownNameError(kind="invocable", name=name)
        return SimpleNamespace(
            needs_approval=name != "free", effect=Effect.ONCE, examine=self._examine
        )

    async def _examine(self, arguments: Any) -> Any:
        self.asked.append(arguments)
        if arguments["n"] == 9:
            raise RequestError(detail="It is too much.")
        return ["a fault"] if arguments["n"] == 8 else []


async def test_only_of_what_somebody_is_asked_about_the_arguments_are_examined_and_once() -> None:
    calls = [
        InvocationCanister(id=key, name=name, arguments=given, invocation_id=key, turn_id="t")
        for key, name, given in [
            ("free", "free", '{"n":1}'),
            ("known", "pay", '{"n":2}'),
            ("had", "pay", '{"n":3}'),
            ("none", "gone", '{"n":4}'),
            ("text", "pay", "{"),
            ("good", "pay", '{"n":7}'),
            ("bad", "pay", '{"n":8}'),
            ("fails", "pay", '{"n":9}'),
            ("doubted", "free", '{"n":10}'),
        ]
    ]
    registry: Any = Examined()
    record = Record.read([attrs.evolve(BEGUN, key="doubted"), attrs.evolve(ENDED, key="had")])
    record.invalid_arguments["known"] = True

    await examine_pending(calls, registry, record)

    assert [each["n"] for each in registry.asked] == [7, 8, 9, 10]
    why = str(RequestError(detail="It is too much."))
    assert record.invalid_arguments == {
        "known": True,
        "good": False,
        "bad": True,
        "fails": why,
        "doubted": False,
    }

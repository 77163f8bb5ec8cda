"""What runs of flows use: all of it is counted once, and budgets bound it as well as can be."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from support.flows.flow_tasks import compose_task
from support.runs.scripting import write_script
from vibe_llms import invocable
from vibe_llms.conversations import Conversation, DirectoryStore
from vibe_llms.conversations.stores.interfaces import ConversationStore
from vibe_llms.flows import AdapterConfig, AdapterResult, UniversalAdapter
from vibe_llms.flows.budgets import Spending, measure
from vibe_llms.flows.task_runs import TaskRun
from vibe_llms.invocables.approvals import allow
from vibe_llms.runs import answer, survey_waiting

GLAD = json.dumps({"reason": "It does.", "category": "glad", "confidence": 1})


def execute(adapter: UniversalAdapter, *given: Any, **named: Any) -> AdapterResult:
    """Runs a task."""
    return asyncio.run(adapter.execute(*given, **named))


def resume(store: ConversationStore, run_id: str, **bounds: Any) -> AdapterResult:
    """Takes a run up, with other bounds."""
    return asyncio.run(UniversalAdapter(AdapterConfig(**bounds), store=store).resume(run_id))


def measure_store(store: ConversationStore) -> Spending:
    """Adds up what all answers in a store have used; those of a flow itself are none."""
    said = [Conversation.restore(store, each).canisters for each in store.survey()]
    return sum(map(measure, said), Spending())


def compare(result: AdapterResult, store: ConversationStore) -> None:
    """All that is in the store is in the result, once."""
    spent = measure_store(store)
    assert (result.requests, result.usage) == (spent.requests, spent.usage)


@pytest.fixture
def unasked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets runs begin though they could exceed their budgets."""

    async def pass_by(*_: object) -> None:
        pass

    monkeypatch.setattr(TaskRun, "_ensure_budgets", pass_by)


def write_whole(path: Path) -> Path:
    """Writes a task that does all that can cost something, and one that it runs."""
    script = write_script(
        path,
        {"match": "categories", "contents": [{"text": GLAD}]},
        {"match": "condition", "contents": [{"text": json.dumps({"is_met": True})}]},
        {"match": "slow", "contents": [{"text": "late"}], "delay_seconds": 0.3},
        {"match": "fail", "contents": [], "fault": {"kind": "authentication", "at_chunk": 0}},
        {"contents": [{"text": "{input}"}]},
    )
    inner = compose_task("START --> P0 --> P1 --> END", "inner", "{{inside}}", script=script)
    (path / "inner.json").write_text(json.dumps({**inner, "variables": {"inside": "x"}}))
    outer = compose_task(
        """
        START --> S[both]
        S --> P0 --> C{mood?}
        C -->|glad| J[join]
        C -->|sad| J
        C --> J
        S --> I[[inner]] --> J
        J --> P1 --> END
        """,
        "first",
        "{{last}}",
        script=script,
        categories={"glad": {"description": "hopeful"}, "sad": {"description": "gloomy"}},
        conditions=[{"description": "good", "evaluation_type": "JUDGE"}],
        variables={"last": "last", "inside": "x"},
    )
    (path / "outer.json").write_text(json.dumps(outer))
    return path / "outer.json"


@pytest.mark.slow
def test_all_that_a_run_has_used_is_in_its_result_once(tmp_path: Path) -> None:
    """Also of choices, of the goal, of subflows, and of visits that failed or were cut off; also
    when it is taken up."""
    task = write_whole(tmp_path)
    for name, variables, reason in (
        ("whole", {}, "ended"),
        ("failed", {"last": "fail"}, "failed"),
        ("failed within", {"inside": "fail"}, "failed"),
        ("cut", {"last": "slow"}, "limit"),
        ("cut within", {"inside": "slow"}, "limit"),
    ):
        store = DirectoryStore(tmp_path / name)
        config = AdapterConfig(timeout_ms=150 if reason == "limit" else 60_000)
        result = execute(UniversalAdapter(config, store=store), task, variables)
        assert result.reason == reason, result.errors
        compare(result, store)
        again = resume(store, result.run_id, timeout_ms=60_000)
        assert again.success is (reason != "failed"), again.errors
        compare(again, store)


def test_budgets_hold_where_branches_run_at_once(unasked: None, tmp_path: Path) -> None:
    """None begins that would be one too many, and the others come to their end."""
    store = DirectoryStore(tmp_path)
    branches = "\n".join(f"n0 --> P{number} --> n1" for number in range(5))
    task = compose_task(f"START --> n0\n{branches}\n n1 --> END", *"abcde")
    result = execute(UniversalAdapter(AdapterConfig(max_requests=3), store=store), task)
    assert (result.limit, result.requests) == ("max_requests", 3)
    assert "max_requests = 3" in result.errors[0]
    compare(result, store)
    again = resume(store, result.run_id, max_requests=5)
    assert (again.success, again.requests) == (True, 5)
    compare(again, store)


@pytest.mark.slow
@pytest.mark.parametrize("bounds", [{"max_requests": 2}, {"max_tokens": 20}])
def test_a_subflow_uses_what_is_left_of_its_flow(
    unasked: None, tmp_path: Path, bounds: dict[str, int]
) -> None:
    """It ends where the flow's budget ends, and the flow with it."""
    usage = {"input_tokens": 3, "output_tokens": 7}
    script = write_script(tmp_path, {"contents": [{"text": "{input}"}], "usage": usage})
    inner = compose_task("START --> P0 --> P1 --> END", "inner", "more", script=script)
    (tmp_path / "inner.json").write_text(json.dumps(inner))
    diagram = "START --> P0 --> I[[inner]] -->|on limit| P0\n I --> END"
    outer = compose_task(diagram, "outer", script=script)
    (tmp_path / "outer.json").write_text(json.dumps(outer))
    store = DirectoryStore(tmp_path / "store")
    adapter = UniversalAdapter(AdapterConfig(**bounds), store=store)
    result = execute(adapter, tmp_path / "outer.json")
    (name,) = bounds
    assert result.limit == name, result.errors
    assert result.errors[0].startswith("I: P")
    compare(result, store)
    again = resume(store, result.run_id, **{name: 1000})
    assert (again.success, again.requests) == (True, 3)
    compare(again, store)


def test_a_choice_and_a_goal_that_a_model_judges_keep_to_the_budget(
    unasked: None, tmp_path: Path
) -> None:
    """A choice waits for more; a condition is not met, as nobody could look at it."""
    task = write_whole(tmp_path)
    store = DirectoryStore(tmp_path / "store")
    result = execute(UniversalAdapter(AdapterConfig(max_requests=3), store=store), task)
    assert (result.limit, result.requests) == ("max_requests", 3)
    again = resume(store, result.run_id, max_requests=5)
    assert (again.success, again.goal_met, again.requests) == (True, False, 5)
    assert "max_requests" in str(again.verification[0].evidence)


def test_what_was_answered_before_a_death_needs_no_budget(unasked: None, tmp_path: Path) -> None:
    """Killed between an answer and the event that says so, a run goes on with what it has."""
    store = DirectoryStore(tmp_path)
    config = AdapterConfig(max_requests=1)
    result = execute(
        UniversalAdapter(config, store=store), compose_task("START --> P0 --> END", "a")
    )
    log = Path(store.locate(result.run_id), "runs.jsonl")
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join(lines[:3]))
    log.with_name("runs.tally").unlink(missing_ok=True)
    again = resume(store, result.run_id, max_requests=1)
    assert (again.errors, again.final_response, again.requests) == ((), "a", 1)


@pytest.mark.parametrize(
    ("first", "words"),
    [
        ({"contents": [{"text": "No."}], "stop_reason": "refused"}, "refused"),
        ({"contents": [{"reasoning": "Hm."}], "stop_reason": "limit"}, "limit of output tokens"),
    ],
)
def test_an_answer_that_is_none_fails_its_visit_and_is_asked_for_again(
    tmp_path: Path, first: dict[str, Any], words: str
) -> None:
    """When the run is taken up; a refusal, and one that is all thoughts."""
    script = write_script(tmp_path, first, {"contents": [{"text": "Yes."}]})
    store = DirectoryStore(tmp_path / "store")
    task = compose_task("START --> P0 --> END", "x", script=script)
    result = execute(UniversalAdapter(store=store), task)
    assert not result.success
    assert words in result.errors[0]
    again = resume(store, result.run_id)
    assert (again.errors, again.final_response) == ((), "Yes.")
    compare(again, store)


def test_silence_is_a_failure(tmp_path: Path) -> None:
    """Not an answer that happens to be empty: what follows would be asked about nothing."""
    script = write_script(tmp_path, {"match": "a", "contents": []}, {"contents": [{"text": "b"}]})
    task = compose_task(
        "START --> P0 --> END\n P0 -->|on error| P1 --> END", "a", "b", script=script
    )
    result = execute(UniversalAdapter(), task)
    assert (result.path, result.final_response) == (("START", "P0", "P1", "END"), "b")
    assert "returned nothing" in result.warnings[0]


def test_several_branches_that_wait_are_all_told(tmp_path: Path) -> None:
    """While another one goes on to its end; each is answered by itself."""

    @invocable(needs_approval=True)
    def pay(amount: int) -> str:
        """Pays.

        Args:
            amount: In cents.
        """
        return f"paid {amount}"

    store = DirectoryStore(tmp_path)
    task = compose_task(
        """
        START --> n0
        n0 --> T1[/"pay amount=1"/] --> n1
        n0 --> P0 --> n1
        n0 --> T2[/"pay amount=2"/] --> n1
        n1 --> END
        """,
        "other",
    )
    adapter = UniversalAdapter(store=store, tools=[pay])
    result = execute(adapter, task)
    assert (result.reason, result.responses) == ("waiting", {"P0": "other"})
    assert "T1: pay" in result.errors[0]
    assert "T2: pay" in result.errors[0]
    waiting = list(survey_waiting(store))
    answer(store, waiting[0].conversation_id, allow(waiting[0].request))
    result = asyncio.run(adapter.resume(result.run_id))
    assert result.reason == "waiting"
    answer(store, waiting[1].conversation_id, allow(waiting[1].request))
    result = asyncio.run(adapter.resume(result.run_id))
    assert (result.success, result.final_response) == (True, "paid 1\n\nother\n\npaid 2")


def test_a_tool_that_failed_and_waits_now_is_no_failure(tmp_path: Path) -> None:
    """What it said the last time is not taken for what it says this time."""
    calls: list[int] = []

    @invocable(needs_approval=True)
    def pay(amount: int) -> str:
        """Pays.

        Args:
            amount: In cents.
        """
        calls.append(amount)
        if len(calls) == 1:
            raise ValueError("no money")
        return "paid"

    store = DirectoryStore(tmp_path)
    adapter = UniversalAdapter(store=store, tools=[pay])
    result = execute(adapter, compose_task('START --> T[/"pay amount=1"/] --> END'))
    seen = []
    for _ in range(2):
        (waiting,) = survey_waiting(store)
        answer(store, waiting.conversation_id, allow(waiting.request))
        result = asyncio.run(adapter.resume(result.run_id))
        seen.append(result.reason)
        if result.reason == "failed":
            assert "no money" in result.errors[0]
            result = asyncio.run(adapter.resume(result.run_id))
            seen.append(result.reason)
    assert seen == ["failed", "waiting", "ended"]
    assert result.final_response == "paid"

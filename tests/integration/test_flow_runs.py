"""Tasks that are run: where a flow goes, what it says in the end, and what becomes of failures."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.flows.flow_tasks import compose_task
from support.runs.scripting import hold_slow_answers, write_script
from vibe_llms import invocable
from vibe_llms.conversations import Conversation, DirectoryStore, MemoryStore
from vibe_llms.events.engine import RunEndedEvent, RunStartedEvent
from vibe_llms.events.flow import FlowEndedEvent, NodeFinishedEvent, VisitEvent
from vibe_llms.exceptions import RequestError, StoreError
from vibe_llms.flows import AdapterConfig, AdapterResult, UniversalAdapter, execute_task, run_task
from vibe_llms.flows.records import read_record, replay_flow
from vibe_llms.invocables import validator_process
from vibe_llms.invocables.approvals import allow
from vibe_llms.plugins import PredicateContext
from vibe_llms.runs import answer, survey_waiting


def run(*parts: Any, config: AdapterConfig | None = None, **settings: Any) -> AdapterResult:
    """Runs a task of these parts."""
    named = {
        name: settings.pop(name)
        for name in ("variables", "store", "tools", "approver", "listener")
        if name in settings
    }
    return run_task(compose_task(*parts, **settings), config, **named)


def test_001_what_is_asked_in_a_row_is_answered_in_a_row() -> None:
    """A response goes into what is asked next, and the last one is the final one."""
    result = run("START --> P0 --> P1 --> END", "say one", "{{response:P0}}, say two")
    assert (result.success, result.errors) == (True, ())
    assert result.path == ("START", "P0", "P1", "END")
    assert result.responses == {"P0": "say one", "P1": "say one, say two"}
    assert result.final_response == "say one, say two"
    assert result.requests == 2


def test_001_a_task_runs_from_a_file_a_dictionary_and_asynchronously(tmp_path: Path) -> None:
    """The ways of the requirement, each with the same result."""
    task = compose_task("START --> P0 --> END", "hello")
    path = tmp_path / "task.json"
    path.write_text(json.dumps(task), encoding="utf-8")
    config = AdapterConfig(max_iterations=100, timeout_ms=60000, debug_mode=True)
    results = [
        run_task(path),
        run_task(str(path)),
        run_task(task),
        asyncio.run(execute_task(task, config)),
        asyncio.run(UniversalAdapter(config).execute(task)),
    ]
    assert [each.final_response for each in results] == ["hello"] * 5


def test_001_a_condition_chooses_by_what_was_said() -> None:
    """By the label that stands in it; else by the default."""
    diagram = """
        START --> P0 --> C{ok?}
        C -->|good| P1
        C -->|bad| P2
        C --> P3
        P1 --> END
        P2 --> END
        P3 --> END
    """
    seen = {}
    for said in ("this is good", "this is bad", "well"):
        result = run(diagram, "{{said}}", "1", "2", "3", variables={"said": said})
        assert result.success, result.errors
        seen[said] = result.final_response
    assert seen == {"this is good": "1", "this is bad": "2", "well": "3"}


def test_001_rounds_of_a_loop_are_counted_to_its_bound() -> None:
    """From 0, and told how many there are."""
    result = run(
        "START --> L([Refine x3])\n L --> P0 --> L\n L --> END", "{{loop.index}}/{{loop.count}}"
    )
    assert [each for each in result.path if each == "P0"] == ["P0"] * 3
    assert result.final_response == "2/3"


def test_001_a_loop_without_a_bound_of_its_own_ends_with_the_run() -> None:
    """Then the limit is named, and the run can be resumed with a higher one."""
    config = AdapterConfig(max_iterations=10, strict_validation=True)
    result = run("START --> L([Refine])\n L --> P0 --> L\n L --> END", "x", config=config)
    assert (result.success, result.limit, len(result.path)) == (False, "max_iterations", 10)
    assert "max_iterations = 10" in result.errors[0]
    assert any("bound" in each for each in result.warnings), result.warnings


def test_branches_run_at_once_and_meet_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each waits as long as the slowest, not as long as all; what they said is put together in the
    order of the diagram."""
    script = write_script(
        tmp_path,
        {"match": "left", "contents": [{"text": "A"}], "delay_seconds": 0.001},
        {"match": "right", "contents": [{"text": "B"}], "delay_seconds": 0.001},
        {"contents": [{"text": "{input}"}]},
    )
    running, most, ended = 0, 0, 0
    # The right one is answered when both have begun, and the left one when that has ended.
    hold_slow_answers(monkeypatch, lambda match: ended if match == "left" else most == 2)

    def listen(event: object) -> None:
        nonlocal running, most, ended
        within = event.event if isinstance(event, VisitEvent) else None
        running += isinstance(within, RunStartedEvent) - isinstance(within, RunEndedEvent)
        most = max(most, running)
        ended += isinstance(within, RunEndedEvent)

    result = run(
        "START --> S[both]\n S --> P0 --> J[join]\n S --> P1 --> J\n J --> P2 --> END",
        "left",
        "right",
        "{{response:P0}} and {{response:P1}}",
        script=script,
        listener=listen,
    )
    assert (result.final_response, most) == ("A and B", 2)
    assert result.path.index("P1") < result.path.index("P0")


def test_some_branches_meet_before_the_others_where_they_begin_at_a_node_of_their_own() -> None:
    """As the check proposes, which refuses the same without that node."""
    rest = "A & B --> J --> P1 --> M\nS --> C[slow] --> M\nM --> P2 --> END"
    prompts = ("first", "{{response:P0}} inner", "{{response:P1}} outer")

    crossed = run(f"START --> P0 --> S\nS --> A & B\n{rest}", *prompts)
    nested = run(f"START --> P0 --> S --> F --> A & B\n{rest}", *prompts)

    assert "or start the branches that meet at J at a node of their own" in crossed.errors[0]
    assert (nested.errors, nested.final_response) == ((), "first inner outer")
    assert [nested.path.count(name) for name in ("J", "P1", "M", "P2")] == [1, 1, 1, 1]


def break_script(tmp_path: Path) -> Path:
    """Writes a script whose first kind of answers fails."""
    return write_script(
        tmp_path,
        {"match": "fail", "contents": [], "fault": {"kind": "authentication", "at_chunk": 0}},
        {"contents": [{"text": "{input}"}]},
    )


def test_a_failure_ends_the_run_where_no_edge_is_for_that(tmp_path: Path) -> None:
    """It names the node, and what was said before is there."""
    script = break_script(tmp_path)
    result = run("START --> P0 --> P1 --> END", "one", "fail", script=script)
    assert (result.success, result.reason) == (False, "failed")
    assert result.errors[0].startswith("P1: ")
    assert result.responses == {"P0": "one"}
    assert result.error is not None


def test_an_edge_on_error_is_taken_after_a_failure(tmp_path: Path) -> None:
    """The run goes on, and tells of it."""
    script = break_script(tmp_path)
    result = run(
        "START --> P0 --> END\n P0 -->|on error| P1 --> END", "fail", "sorry", script=script
    )
    assert (result.success, result.final_response) == (True, "sorry")
    assert result.path == ("START", "P0", "P1", "END")
    assert any(each.startswith("P0: ") for each in result.warnings)


def test_a_loop_leaves_by_its_edge_on_limit() -> None:
    """Where it has one, and has gone round as often as it may."""
    result = run(
        """
        START --> L([x2])
        L --> P0 --> C{done?}
        C -->|done| END
        C --> L
        L -->|limit| P1 --> END
        """,
        "more",
        "gave up",
    )
    assert result.success, result.errors
    assert result.final_response == "gave up"
    assert result.path.count("P0") == 2


def test_an_answer_that_is_cut_off_counts_unless_an_edge_is_for_that(tmp_path: Path) -> None:
    """It reached ``max_tokens`` of the model, which is no budget of the run."""
    cut = {"contents": [{"text": "half an"}], "stop_reason": "limit"}
    script = write_script(tmp_path, cut)
    result = run("START --> P0 --> END", "x", script=script)
    assert (result.errors, result.final_response) == ((), "half an")
    diagram = "START --> P0 --> END\n P0 -->|limit| S[short] --> END"
    result = run(diagram, "x", script=script)
    assert (result.errors, result.path) == ((), ("START", "P0", "S", "END"))


@invocable
def double(number: int) -> int:
    """Doubles a number.

    Args:
        number: Any.
    """
    return 2 * number


def test_a_tool_node_invokes_and_its_result_is_what_was_said() -> None:
    """With what the flow knows as arguments, each of its own type."""
    result = run(
        'START --> P0 --> T[/"double number={{n}}"/] --> P1 --> END',
        "x",
        "it is {{response:T}}",
        tools=[double],
        variables={"n": 21},
    )
    assert (result.errors, result.final_response) == ((), "it is 42")
    assert result.requests == 2  # for the tool, no model was asked


def test_a_tool_gets_what_a_model_and_a_command_line_say_in_its_own_types() -> None:
    """Both say texts; one that takes a text gets a number as it is written."""

    def label(count: int, code: str, ratio: float, tags: list[str] | None = None) -> str:
        """Write a label."""
        return repr((count, code, ratio, tags))

    result = run(
        'START --> P0 --> T[/"label count={{response:P0}} code=04100 ratio={{r}} tags={{t}}"/]\n'
        'T --> U[/"label count=2 code=1.50 ratio=1"/] --> END',
        "21",
        tools=[label],
        variables={"r": "0.5", "t": '["a"]'},
    )

    assert result.errors == ()
    assert result.responses["T"] == "(21, '04100', 0.5, ['a'])"
    assert result.responses["U"] == "(2, '1.50', 1.0, None)"


def pay_for(calls: list[int]) -> Callable[..., Any]:
    @invocable(needs_approval=True)
    def pay(amount: int) -> str:
        """Pays.

        Args:
            amount: In cents.
        """
        calls.append(amount)
        return f"paid {amount}"

    return pay


def test_what_needs_an_approval_waits_and_goes_on_when_it_is_given(tmp_path: Path) -> None:
    """The run rests meanwhile, and whoever resumes it pays once."""
    calls: list[int] = []
    store = DirectoryStore(tmp_path)
    task = compose_task(
        'START --> P0 --> C{ok?}\n C -->|yes| T[/"pay amount=5"/] --> END\n C --> END', "yes"
    )
    adapter = UniversalAdapter(store=store, tools=[pay_for(calls)])
    result = asyncio.run(adapter.execute(task))
    assert (result.success, result.reason, calls) == (False, "waiting", [])
    assert "pay awaits approval" in result.errors[0]
    (waiting,) = survey_waiting(store)
    answer(store, waiting.conversation_id, allow(waiting.request))
    result = asyncio.run(adapter.resume(result.run_id))
    assert (result.success, result.final_response, calls) == (True, "paid 5", [5])
    again = asyncio.run(adapter.resume(result.run_id))
    assert (again.final_response, calls) == ("paid 5", [5])


def test_a_subflow_runs_another_task(tmp_path: Path) -> None:
    """It is given what was said before as its input, and its final response is the node's."""
    inner = compose_task("START --> P0 --> END", "inner: {{input}} {{name}}")
    (tmp_path / "inner.json").write_text(json.dumps(inner), encoding="utf-8")
    outer = compose_task("START --> P0 --> S[[inner]] --> P1 --> END", "o", "got {{response:S}}")
    path = tmp_path / "outer.json"
    path.write_text(json.dumps(outer), encoding="utf-8")
    heard: list[Any] = []
    result = run_task(path, variables={"name": "n"}, listener=heard.append)
    assert (result.errors, result.final_response) == ((), "got inner: o n")
    assert result.requests == 3
    within = [each.event for each in heard if isinstance(each, VisitEvent)]
    assert sum(isinstance(each, FlowEndedEvent) for each in within) == 1
    asked = [each.event for each in within if isinstance(each, VisitEvent)]
    assert any(isinstance(each, RunEndedEvent) for each in asked)


def test_a_subflow_takes_the_tools_that_are_given(tmp_path: Path) -> None:
    """Nothing says then that they must be given; one that is missing is an error."""
    inner = compose_task('START --> T[/"double number=4"/] --> END')
    (tmp_path / "inner.json").write_text(json.dumps(inner), encoding="utf-8")
    path = tmp_path / "outer.json"
    path.write_text(json.dumps(compose_task("START --> S[[inner]] --> END")), encoding="utf-8")
    given = UniversalAdapter(AdapterConfig(strict_validation=False), tools=[double])

    result = asyncio.run(given.execute(path))
    checks = [asyncio.run(each.check(path)) for each in (given, UniversalAdapter())]

    assert result.final_response == "8"
    told = [*result.warnings, *(str(each) for check in checks for each in check.warnings)]
    assert not [each for each in told if "must be given" in each]
    assert [len(check.errors) for check in checks] == [0, 1]
    assert "Unknown tool 'double'" in str(checks[1].errors[0])


@pytest.mark.slow
def test_time_that_is_up_stops_the_request_in_flight(tmp_path: Path) -> None:
    """And the run can be resumed with more."""
    script = write_script(tmp_path, {"contents": [{"text": "slow"}], "delay_seconds": 0.3})
    store = DirectoryStore(tmp_path / "store")
    task = compose_task("START --> P0 --> END", "x", script=script)
    short = UniversalAdapter(AdapterConfig(timeout_ms=50), store=store)
    result = asyncio.run(short.execute(task))
    assert (result.success, result.limit) == (False, "timeout_ms")
    result = asyncio.run(
        UniversalAdapter(AdapterConfig(timeout_ms=60_000), store=store).resume(result.run_id)
    )
    assert (result.success, result.final_response) == (True, "slow")


def test_a_run_that_is_cancelled_says_so_and_can_be_resumed(tmp_path: Path) -> None:
    """What was said before is not asked again."""
    script = write_script(
        tmp_path,
        {"match": "slow", "contents": [{"text": "late"}], "delay_seconds": 30},
        {"contents": [{"text": "{input}"}]},
    )
    store = DirectoryStore(tmp_path / "store")
    task = compose_task("START --> P0 --> P1 --> END", "quick", "{{word}}", script=script)
    adapter = UniversalAdapter(store=store)

    async def cancel() -> str:
        arrived = asyncio.Event()
        adapter.listener = lambda event: (
            arrived.set() if getattr(event, "node", "") == "P1" else None
        )
        begun = asyncio.create_task(adapter.execute(task, {"word": "slow"}, run_id="mine"))
        await arrived.wait()
        begun.cancel()
        with pytest.raises(asyncio.CancelledError):
            await begun
        return "mine"

    run_id = asyncio.run(cancel())
    events = read_record(store, run_id).events
    assert isinstance(events[-1], FlowEndedEvent)
    assert events[-1].reason == "cancelled"
    adapter.listener = None
    forked = asyncio.run(adapter.fork(run_id, "P1", variables={"word": "soon"}))
    assert (forked.errors, forked.final_response) == ((), "soon")
    assert forked.requests == 2


def test_budgets_stop_a_run_before_the_next_request() -> None:
    """What is used up is named."""
    config = AdapterConfig(max_requests=4)
    result = run("START --> L([x4])\n L --> P0 --> L\n L --> END", "x", config=config)
    assert result.success, result.errors
    assert result.requests == 4


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (AdapterConfig(max_requests=3), "The flow may need 4 requests, but max_requests is 3."),
        (AdapterConfig(max_tokens=1000), "set 'max_tokens' in 'resource_llm'"),
    ],
)
def test_a_run_that_could_exceed_a_budget_does_not_start(config: AdapterConfig, words: str) -> None:
    """Nothing is asked, nothing is kept."""
    store = MemoryStore()
    task = compose_task("START --> L([x4])\n L --> P0 --> L\n L --> END", "x")
    result = run_task(task, config, store=store)
    assert (result.success, result.reason, result.requests) == (False, "refused", 0)
    assert words in result.errors[0]
    assert list(store.survey()) == []


def test_a_fork_goes_its_own_way_from_a_node_on(tmp_path: Path) -> None:
    """What was before holds and is not asked again; what follows is asked with other words."""
    store = MemoryStore()
    task = compose_task("START --> P0 --> P1 --> END", "first", "{{response:P0}} {{word}}")
    adapter = UniversalAdapter(store=store)
    result = asyncio.run(adapter.execute(task, {"word": "one"}))
    before = len(list(store.survey()))
    forked = asyncio.run(adapter.fork(result.run_id, "P1", variables={"word": "two"}))
    assert forked.final_response == "first two"
    assert forked.run_id != result.run_id
    assert len(list(store.survey())) == before + 2  # the fork, and one visit
    with pytest.raises(RequestError, match=r"no visit 2 of 'P1'; the last one is 1\.$"):
        asyncio.run(adapter.fork(result.run_id, "P1", visit=2))
    with pytest.raises(RequestError, match=r"no visit 1 of 'P'; did you mean 'P1'\?$"):
        asyncio.run(adapter.fork(result.run_id, "P"))
    with pytest.raises(StoreError, match="has no store"):
        asyncio.run(UniversalAdapter().fork(result.run_id, "P1"))


def test_a_run_is_replayed_without_a_model() -> None:
    """Its events lead to the same state; one that is no step of the flow is found."""
    store = MemoryStore()
    task = compose_task("START --> L([x2])\n L --> P0 --> L\n L --> END", "{{loop.index}}")
    result = run_task(task, store=store)
    record = read_record(store, result.run_id)
    flow = record.flow
    state = replay_flow(flow, record.events, max_iterations=1000)
    assert (state.final, tuple(state.path)) == ("1", result.path)
    wrong = [
        event
        for event in record.events
        if not (isinstance(event, NodeFinishedEvent) and event.node == "L" and event.visit == 2)
    ]
    with pytest.raises(StoreError, match="visited P0"):
        replay_flow(flow, wrong, max_iterations=1000)


def test_the_goal_is_looked_at_in_the_end() -> None:
    """Each condition with its evidence."""
    result = run(
        "START --> P0 --> END",
        "the answer is 42",
        conditions=[
            {"description": "has it", "evaluation_type": "CONTAINS", "expected_value": "42"},
            {
                "description": "is short",
                "evaluation_type": "ITERATION_LIMIT",
                "expected_value": "2",
            },
        ],
    )
    assert (result.success, result.goal_met) == (True, False)
    assert [each.is_met for each in result.verification] == [True, False]
    assert all(each.evidence for each in result.verification)
    first = result.verification[0]
    assert (first.description, first.evaluation_type, first.confidence) == ("has it", "CONTAINS", 1)
    with pytest.warns(DeprecationWarning, match=r"write verdict\.is_met"):
        assert first["is_met"] is True
    with pytest.raises(KeyError):
        first["nothing"]
    lax = AdapterConfig(require_all_conditions=False)
    assert run_task(
        compose_task(
            "START --> P0 --> END",
            "the answer is 42",
            conditions=[
                {"description": "a", "evaluation_type": "CONTAINS", "expected_value": "42"},
                {"description": "b", "evaluation_type": "CONTAINS", "expected_value": "43"},
            ],
        ),
        lax,
    ).goal_met


def test_predicates_may_be_functions_of_the_program() -> None:
    """By their own names, or by those that they are given; asynchronous ones, too."""

    def is_brief(response: str) -> bool:
        return len(response.split()) < 3

    async def is_on_topic(response: str, context: PredicateContext) -> tuple[bool, str]:
        return str(context.variables["topic"]) in response, "The topic is there."

    diagram = "START --> P0 --> C{which?}\nC -->|short| P1 --> END\nC -->|else| END"
    task = compose_task(
        diagram,
        "on tides",
        "again {{topic}}",
        variables={"topic": "tides"},
        categories={"short": {"predicate": "is_brief"}},
        conditions=[
            {
                "description": "on topic",
                "evaluation_type": "CUSTOM",
                "expected_value": "is_on_topic",
            }
        ],
    )

    result = run_task(task, predicates=[is_brief, is_on_topic])
    named = run_task(task, predicates={"is_brief": lambda text: False, "is_on_topic": is_on_topic})

    assert result.path == ("START", "P0", "C", "P1", "END")
    assert (result.goal_met, "The topic is there." in result.verification[0].evidence) == (
        True,
        True,
    )
    assert named.path == ("START", "P0", "C", "END")
    missing = run_task(task, predicates=[is_brief])
    assert "Unknown predicate 'is_on_topic'" in missing.errors[0]
    for wrong, said in (("is_brief", "not str"), ([lambda text: True], "a name")):
        with pytest.raises(TypeError, match=said):
            run_task(task, predicates=wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="Two predicates"):
        run_task(task, predicates=[is_brief, is_brief])


def test_a_model_that_chooses_is_asked_once_however_often_the_run_is_resumed(
    tmp_path: Path,
) -> None:
    """Its answer is kept beside the visit, before the flow goes on."""
    script = write_script(
        tmp_path,
        {
            "match": "categories",
            "contents": [
                {"text": json.dumps({"reason": "It hopes.", "category": "glad", "confidence": 0.9})}
            ],
        },
        {"contents": [{"text": "{input}"}]},
    )
    store = DirectoryStore(tmp_path / "store")
    task = compose_task(
        "START --> P0 --> C{mood}\n C -->|glad| P1 --> END\n C -->|sad| END\n C --> END",
        "spring",
        "yes",
        script=script,
        categories={"glad": {"description": "hopeful"}, "sad": {"description": "gloomy"}},
    )
    result = run_task(task, store=store)
    assert (result.errors, result.path[-2]) == ((), "P1")
    assert result.requests == 3
    (event,) = [
        each
        for each in read_record(store, result.run_id).events
        if isinstance(each, NodeFinishedEvent) and each.node == "C"
    ]
    assert (event.category, event.confidence) == ("glad", 0.9)
    assert "It hopes." in event.evidence
    assert event.requests == 1


@pytest.mark.slow
def test_a_choice_that_fails_takes_the_edge_on_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a visit does that fails in any other way."""
    monkeypatch.setattr(validator_process, "VALIDATOR_SECONDS", 0.2)
    validator_process.dismiss()
    diagram = "START --> P0 --> C{ok?}\n C -->|good| END\n C -->|error| P1 --> END\n C --> END"
    rules = {"good": {"pattern": "(a+)+$"}}
    said = "a" * 5_000 + "b"
    result = run(diagram, "{{said}}", "sorry", categories=rules, variables={"said": said})
    validator_process.dismiss()
    assert (result.errors, result.final_response) == ((), "sorry")


def test_the_content_of_an_entry_goes_into_a_prompt(tmp_path: Path) -> None:
    """Only that of entries that a prompt wants; what cannot be had fails the visit."""
    (tmp_path / "notes.md").write_text("tides come twice", encoding="utf-8")
    entries = [
        {"name": "notes", "source_url": "file:notes.md"},
        {"name": "lost", "source_url": "file:lost.md"},
    ]
    task = compose_task(
        "START --> P0 --> END",
        "{{registry:notes.content}} by {{registry:notes}}",
        resource_registry={"entries": entries},
    )
    path = tmp_path / "task.json"
    path.write_text(json.dumps(task), encoding="utf-8")
    assert run_task(path).final_response == "tides come twice by file:notes.md"
    task["prompts"][0]["template"] = "{{registry:lost.content}}"
    path.write_text(json.dumps(task), encoding="utf-8")
    result = run_task(path)
    assert (result.success, result.reason) == (False, "failed")
    assert "lost.md" in result.errors[0]


def test_the_conversation_of_a_run_has_the_goal_and_what_came_of_it(tmp_path: Path) -> None:
    """Once, also when it is resumed after its end."""
    store = DirectoryStore(tmp_path)
    result = run("START --> P0 --> END", "done", store=store)
    asyncio.run(UniversalAdapter(store=store).resume(result.run_id))
    conversation = Conversation.restore(store, result.run_id)
    assert [each.role for each in conversation.canisters] == ["user", "assistant"]
    assert "flow" in conversation.metadata.tags


def test_a_task_with_mistakes_is_refused_and_nothing_is_sent() -> None:
    """All of them are told."""
    result = run("START --> P0 --> P7", "{{nothing}")
    assert (result.success, result.reason, result.path) == (False, "refused", ())
    assert len(result.errors) >= 3

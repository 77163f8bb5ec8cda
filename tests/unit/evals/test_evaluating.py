"""Suites are run: within the budget, through the cache, and whatever a subject does."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import attrs
import pytest

from support.batches.vendor_batching import MODELS, produce_application
from support.evals.suites import replace_script, run_in, script_model, write_judgment, write_suite
from support.runs.acting import invoke
from support.runs.scripting import write_script
from vibe_llms import Conversation, Engine
from vibe_llms.conversations import DirectoryStore
from vibe_llms.evals.costs import EvalForecast
from vibe_llms.evals.evaluating import Evaluation, run_suite
from vibe_llms.evals.options import EvalOptions, EvalProgress
from vibe_llms.evals.subjects import ModelSubject
from vibe_llms.evals.suites import EvalCase, EvalJudge, EvalSubject, Suite
from vibe_llms.exceptions import ConfigurationError, UnknownNameError
from vibe_llms.flows.adapter import UniversalAdapter
from vibe_llms.runs.indexing import survey_runs
from vibe_llms.testing.simulator import Say, ScriptedAnswer, SynchronousSimulator, Tokens

ECHO = EvalSubject(name="echo", model="scripted:echo")
GOOD = EvalJudge(name="good", kind="function", function=lambda answer: True)

TASK: dict[str, Any] = {
    "goal": {
        "description": "Say it.",
        "target_conditions": [
            {
                "description": "It is about tides.",
                "evaluation_type": "CONTAINS",
                "expected_value": "tides",
            }
        ],
    },
    "resource_llm": {"provider": "scripted", "model": "echo"},
    "prompts": [{"template": "Write about {{topic}}."}],
    "resource_registry": {"entries": []},
    "flow_diagram": {"mermaid": "flowchart TD\n  START --> P0 --> END"},
}


@pytest.fixture
def simulator() -> Iterator[SynchronousSimulator]:
    """Vendors with prices."""
    with SynchronousSimulator() as running:
        yield running


def ask(*prompts: str, **settings: Any) -> Suite:
    """Return a suite with a case for each prompt."""
    cases = [EvalCase(name=f"c{number}", prompt=text) for number, text in enumerate(prompts)]
    return Suite(**{"cases": cases, "subjects": [ECHO], "judges": [GOOD], **settings})


async def test_a_suite_is_run_from_its_file(tmp_path: Path) -> None:
    report = await run_in(tmp_path, write_suite(tmp_path))

    states = [(each.case, each.repeat, str(each.state)) for each in report.trials]
    assert states == [
        *(("france", 1, "failed"), ("france", 2, "failed")),
        *(("italy", 1, "passed"), ("italy", 2, "passed")),
    ]
    (summary,) = report.summarize()
    assert (summary.rate.passed, summary.rate.total) == (2, 4)
    assert not report.holds
    assert report.cases[0].prompt == "What is the capital of France?"
    assert "does not contain 'Paris'" in report.trials[0].reason


def test_synchronous_code_runs_suites(tmp_path: Path) -> None:
    assert run_suite(ask("Hello."), cache=tmp_path).holds


async def test_a_second_run_asks_nothing(tmp_path: Path) -> None:
    """The answer of each repeat is cached for itself; a changed prompt is asked."""
    model = script_model(tmp_path, "m", "First.")
    suite = ask("1?", "2?", subjects=[EvalSubject(name="m", model=model)], repeats=2)
    first = await run_in(tmp_path, suite)
    replace_script(tmp_path, "m", "Other.")

    second = await run_in(tmp_path, suite)
    third = await run_in(tmp_path, ask("1?", "3?", subjects=suite.subjects, repeats=3))

    texts = [[each.answer.text for each in run.trials if each.answer] for run in (first, second)]
    assert texts == [["First."] * 4] * 2
    assert all(each.answer and each.answer.is_cached for each in second.trials)
    found = [each.answer.text for each in third.trials if each.answer]
    assert found == ["First.", "First.", "Other.", "Other.", "Other.", "Other."]


async def test_a_damaged_result_is_made_again(tmp_path: Path) -> None:
    model = script_model(tmp_path, "m", write_judgment(True))
    judge = EvalJudge(name="j", kind="model", question="Good?", model=model)
    suite = ask("1?", judges=[judge])
    await run_in(tmp_path, suite)
    connection = sqlite3.connect(tmp_path / "cache" / "results.sqlite")
    connection.execute("UPDATE results SET value = ?", (b"{",))
    connection.commit()
    connection.close()

    mended = await run_in(tmp_path, suite)
    again = await run_in(tmp_path, suite)

    assert mended.holds
    cached = [each.trials[0].answer and each.trials[0].answer.is_cached for each in (mended, again)]
    assert cached == [False, True]


async def test_equal_cases_are_asked_once(tmp_path: Path) -> None:
    calls = []
    model = script_model(tmp_path, "m", "One.")
    judge = EvalJudge(
        name="j", kind="function", function=lambda answer: bool(calls.append(1)) or True
    )
    suite = ask("Same?", "Same?", subjects=[EvalSubject(name="m", model=model)], judges=[judge])

    report = await run_in(tmp_path, suite)

    assert [each.answer.is_cached for each in report.trials if each.answer] == [False, True]
    assert len(calls) == 2


async def test_an_interrupted_run_continues(tmp_path: Path) -> None:
    """What was answered before is not asked again."""
    suite = ask(*(f"{number}?" for number in range(9)), concurrency=1)
    done: list[int] = []

    def stop(progress: EvalProgress) -> None:
        done.append(progress.done)
        if progress.done == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await run_in(tmp_path, suite, progress=stop)
    report = await run_in(tmp_path, suite)

    cached = [each.answer.is_cached for each in report.trials if each.answer]
    assert done == [1, 2, 3, 4]
    assert cached[:4] == [True] * 4
    assert not cached[-1]


async def test_two_runs_at_once_share_the_cache(tmp_path: Path) -> None:
    suite = ask(*(f"{number}?" for number in range(20)))

    one, other = await asyncio.gather(run_in(tmp_path, suite), run_in(tmp_path, suite))

    assert one.holds
    assert [each.answer and each.answer.text for each in one.trials] == [
        each.answer and each.answer.text for each in other.trials
    ]


async def test_failures_are_errors_and_are_asked_again(tmp_path: Path) -> None:
    model = script_model(tmp_path, "m")
    path = Path(model.removeprefix("scripted:"))
    path.write_text('[[responses]]\nfault = { kind = "invalid-request" }\n')
    suite = ask("1?", subjects=[EvalSubject(name="m", model=model)])
    failed = await run_in(tmp_path, suite)
    script_model(tmp_path, "m", "Well.")

    mended = await run_in(tmp_path, suite)

    assert [str(each.state) for each in failed.trials] == ["error"]
    assert failed.trials[0].reason
    assert failed.summarize()[0].errors == 1
    assert mended.holds


async def test_a_subject_with_a_wrong_key_fails_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is asked once, not for each case."""
    model = script_model(tmp_path, "m")
    path = Path(model.removeprefix("scripted:"))
    path.write_text('[[responses]]\nfault = { kind = "authentication" }\n')
    suite = ask(*"123", subjects=[EvalSubject(name="bad", model=model), ECHO], concurrency=1)
    asked: list[str] = []
    answer = ModelSubject.answer

    async def count(subject: ModelSubject, *arguments: Any) -> Any:
        asked.append(subject.subject.name)
        return await answer(subject, *arguments)

    monkeypatch.setattr(ModelSubject, "answer", count)
    report = await run_in(tmp_path, suite)

    assert {each.subject: each.rate.passed for each in report.summarize()} == {"bad": 0, "echo": 3}
    assert asked.count("bad") == 1


async def test_what_a_run_costs_is_foreseen_and_counted(
    tmp_path: Path, simulator: SynchronousSimulator
) -> None:
    application = produce_application("anthropic", simulator.url)
    priced = EvalSubject(name="p", model=f"anthropic:{MODELS['anthropic']}")
    suite = ask("1?", "2?", subjects=[priced], repeats=2)
    options = EvalOptions(cache=tmp_path)

    async with Evaluation(suite, options, application=application) as evaluation:
        forecast = await evaluation.forecast()
        report = await evaluation.run()
        again = await evaluation.forecast()

    assert (forecast.trials, forecast.requests, forecast.cached) == (4, 4, 0)
    # 500 tokens of output at $15 for a million, four times, and a few of input.
    assert forecast.dollars is not None
    assert Decimal("0.030") < forecast.dollars < Decimal("0.031")
    assert report.trials[0].reason == ""
    assert report.cost > 0
    assert report.unpriced == 0
    assert (again.requests, again.cached, again.dollars) == (0, 4, 0)
    await application.close()


async def test_nothing_more_is_sent_after_the_maximum_cost(
    tmp_path: Path, simulator: SynchronousSimulator
) -> None:
    """The cap is never exceeded; a later run with a higher one continues."""
    application = produce_application("anthropic", simulator.url)
    priced = EvalSubject(
        name="p", model=f"anthropic:{MODELS['anthropic']}", controls={"max_tokens": 50}
    )
    suite = ask(*(f"{number}?" for number in range(12)), subjects=[priced, ECHO])

    def run(cap: str) -> Any:
        return run_in(tmp_path, suite, application=application, max_cost=Decimal(cap))

    usage = Tokens(received=100, produced=50)  # of $0.00105
    simulator.enqueue(*[ScriptedAnswer(parts=(Say("Well."),), usage=usage)] * 12)
    nothing = await run("0")
    assert not simulator.requests
    some = await run("0.012")
    sent = len(simulator.requests)
    rest = await run("1")

    assert nothing.untried == 12
    assert {each.subject: each.rate.passed for each in nothing.summarize()} == {"p": 0, "echo": 12}
    assert not nothing.holds
    assert 0 < some.cost <= 0.012
    assert 0 < some.untried == 12 - sent
    assert rest.untried == 0
    assert len(simulator.requests) == 12
    await application.close()


@pytest.mark.parametrize("cap", ["nan", "inf", "-1", "-inf"])
async def test_a_cap_is_an_amount(tmp_path: Path, cap: str) -> None:
    with pytest.raises(ConfigurationError, match="max_cost: It must be a number of dollars"):
        await run_in(tmp_path, ask("1?"), max_cost=Decimal(cap))


async def test_a_cap_needs_a_price(tmp_path: Path, simulator: SynchronousSimulator) -> None:
    """Without one the run is refused before anything is sent; without a cap it is told."""
    application = produce_application("anthropic", simulator.url)
    unknown = EvalSubject(name="u", model="anthropic:claude-nobody-knows")
    suite = ask("1?", subjects=[unknown])

    with pytest.raises(ConfigurationError, match="A cap is not possible"):
        await run_in(tmp_path, suite, application=application, max_cost=Decimal(1))
    assert not [each for each in simulator.requests if each.method == "POST"]
    options = EvalOptions(cache=tmp_path)
    async with Evaluation(suite, options, application=application) as evaluation:
        assert (await evaluation.forecast()).unpriced == ("u",)
        report = await evaluation.run()
    assert report.unpriced == 1
    await application.close()


async def test_tasks_are_subjects_and_their_goals_judge(tmp_path: Path) -> None:
    (tmp_path / "task.json").write_text(json.dumps(TASK))
    suite = Suite(
        cases=[
            EvalCase(name="tides", variables={"topic": "tides"}),
            EvalCase(name="winds", variables={"topic": "winds"}),
        ],
        subjects=[EvalSubject(name="task", task=tmp_path / "task.json")],
        judges=[EvalJudge(name="goal", kind="goal")],
    )

    report = await run_in(tmp_path, suite, max_cost=Decimal(0))
    again = await run_in(tmp_path, suite)

    assert [str(each.state) for each in report.trials] == ["passed", "failed"]
    assert report.trials[0].answer is not None
    assert report.trials[0].answer.text == "Write about tides."
    assert "It is about tides." in report.trials[1].reason
    assert all(each.answer and each.answer.is_cached for each in again.trials)


async def test_a_task_is_run_again_if_a_file_that_it_reads_differs(tmp_path: Path) -> None:
    (tmp_path / "note.md").write_text("tides")
    entry = {"name": "note", "source_url": "file:note.md"}
    task = {
        **TASK,
        "prompts": [{"template": "Write about {{registry:note.content}}."}],
        "resource_registry": {"entries": [entry]},
    }
    (tmp_path / "task.json").write_text(json.dumps(task))
    suite = Suite(
        cases=[EvalCase(name="c")],
        subjects=[EvalSubject(name="task", task=tmp_path / "task.json")],
        judges=[EvalJudge(name="goal", kind="goal")],
    )
    first = await run_in(tmp_path, suite)
    (tmp_path / "note.md").write_text("winds")

    second = await run_in(tmp_path, suite)

    assert first.holds, first.trials[0].reason
    assert not second.holds


async def test_mistakes_of_a_task_are_found_before_anything_is_sent(tmp_path: Path) -> None:
    (tmp_path / "task.json").write_text(json.dumps({**TASK, "prompts": []}))
    suite = Suite(
        cases=[EvalCase(name="c")],
        subjects=[EvalSubject(name="task", task=tmp_path / "task.json")],
        judges=[EvalJudge(name="goal", kind="goal")],
    )

    with pytest.raises(ConfigurationError, match="P0"):
        await run_in(tmp_path, suite)


async def test_a_goal_of_a_model_cannot_be_judged(tmp_path: Path) -> None:
    report = await run_in(tmp_path, ask("1?", judges=[EvalJudge(name="g", kind="goal")]))

    assert str(report.trials[0].state) == "error"
    assert "Only tasks have goals" in report.trials[0].reason


async def test_missing_variables_and_files_are_reported_together(tmp_path: Path) -> None:
    suite = ask("{{ one }}", "{{ two", "3?")
    cases = [*suite.cases, EvalCase(name="file", prompt="?", files=(tmp_path / "none.png",))]

    with pytest.raises(ConfigurationError) as caught:
        await run_in(tmp_path, ask(cases=cases))

    told = str(caught.value)
    assert "needs the variables 'one'" in told
    assert "none.png" in told
    assert len(caught.value.findings) == 3


async def test_files_and_instructions_are_sent(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("Remember the milk.")
    model = script_model(tmp_path, "m", "I see.")
    subject = EvalSubject(name="m", model=model, system="Be brief.")
    case = EvalCase(name="c", prompt="What?", files=(tmp_path / "note.txt",))
    suite = ask(cases=[case], subjects=[subject])
    evaluation = Evaluation(suite, EvalOptions(cache=tmp_path))

    async with evaluation:
        (prepared,) = evaluation._prepared.values()

    assert [each.role for each in prepared.value] == ["supervisor", "document", "user"]


async def test_a_kept_run_is_a_case(tmp_path: Path) -> None:
    """Models answer its conversation up to the last question."""
    store = DirectoryStore(tmp_path / "run_x")
    engine = Engine("scripted:echo", store=store)
    conversation = Conversation()
    for text in ("My name is Ada.", "What is my name?"):
        conversation.add_user_message(text)
        conversation = (await engine.answer(conversation)).conversation
    case = EvalCase(name="name", run=tmp_path / "run_x")

    report = await run_in(tmp_path, ask(cases=[case]))

    assert report.trials[0].answer is not None
    assert report.trials[0].answer.text == "What is my name?"


async def keep_conversation(folder: Path, *texts: str) -> Path:
    """Let a model answer a conversation, and return the folder of its run."""
    engine = Engine("scripted:echo", store=DirectoryStore(folder / "run_x"))
    conversation = Conversation()
    for text in texts:
        conversation.add_user_message(text)
        conversation = (await engine.answer(conversation)).conversation
    return folder / "run_x"


async def test_judges_of_a_kept_run_know_its_prompt(tmp_path: Path) -> None:
    """A model and a function are told its last question, and the report shows it."""
    run = await keep_conversation(tmp_path, "My name is Ada.", "What is my name?")
    told: list[str] = []

    def record(answer: str, context: Any) -> bool:
        told.append(context.variables["prompt"])
        return True

    model = script_model(tmp_path, "m", "It is Ada.")
    judging_model = script_model(tmp_path, "j", "?", **{"What is my name": write_judgment(True)})
    judges = [
        EvalJudge(name="model", kind="model", model=judging_model, question="Is it right?"),
        EvalJudge(name="function", kind="function", function=record),
    ]
    subjects = [EvalSubject(name="m", model=model)]

    report = await run_in(
        tmp_path, ask(cases=[EvalCase(name="c", run=run)], subjects=subjects, judges=judges)
    )

    assert report.holds, report.trials[0].reason
    assert told == ["What is my name?"]
    assert report.cases[0].prompt == "What is my name?"


async def test_judges_of_a_task_know_its_goal_and_variables(tmp_path: Path) -> None:
    """Those of a kept run, too."""
    path = tmp_path / "task.json"
    path.write_text(json.dumps(TASK))
    store = DirectoryStore(tmp_path / "store")
    assert (await UniversalAdapter(store=store).execute(path, {"topic": "tides"})).success
    (identity,) = [each.id for each in survey_runs(store) if each.kind == "flow"]
    kept = tmp_path / f"run_{identity.replace('-', '_')}"
    (tmp_path / "store").rename(kept)
    told: dict[str, str] = {}

    def record(answer: str, context: Any) -> bool:
        told[context.variables["case"]] = context.variables["prompt"]
        return True

    cases = [
        EvalCase(name="own", variables={"topic": "winds"}),
        EvalCase(name="kept", run=kept),
        EvalCase(name="prompt", prompt="Which {{ topic }}?", variables={"topic": "seas"}),
    ]
    suite = Suite(
        cases=cases,
        subjects=[EvalSubject(name="task", task=path)],
        judges=[EvalJudge(name="j", kind="function", function=record)],
    )

    report = await run_in(tmp_path, suite)

    assert report.holds, [each.reason for each in report.trials]
    assert told["own"].startswith("Say it.")
    assert '"winds"' in told["own"]
    assert '"tides"' in told["kept"]
    assert told["prompt"] == "Which seas?"
    assert '"tides"' in report.cases[1].prompt


async def test_a_call_that_nobody_approves_fails_its_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is written. A case may take the tools away."""
    monkeypatch.chdir(tmp_path)
    path = write_script(
        tmp_path, {"contents": [invoke("write_file", "1", path="note.txt", text="eggs")]}
    )
    subject = EvalSubject(name="m", model=f"scripted:{path}", tools=("io",))
    cases = [EvalCase(name="write", prompt="Write it."), EvalCase(name="no", prompt="!", tools=())]

    report = await run_in(tmp_path, ask(cases=cases, subjects=[subject]))

    assert [str(each.state) for each in report.trials] == ["error", "error"]
    assert "awaits approval" in report.trials[0].reason
    assert "no text" in report.trials[1].reason
    assert not (tmp_path / "note.txt").exists()


async def test_cases_tags_and_subjects_are_selected(tmp_path: Path) -> None:
    path = write_suite(tmp_path)

    by_case = await run_in(tmp_path, path, cases=["italy"])
    by_tag = await run_in(tmp_path, path, tags=["europe"])

    assert {each.case for each in by_case.trials} == {"italy"}
    assert by_case.holds
    assert {each.case for each in by_tag.trials} == {"france"}
    for name in ("cases", "tags", "subjects"):
        with pytest.raises(UnknownNameError):
            await run_in(tmp_path, path, **{name: ["itlay"]})
        with pytest.raises(TypeError):
            await run_in(tmp_path, path, **{name: "italy"})


async def test_a_judging_model_is_within_the_budget(
    tmp_path: Path, simulator: SynchronousSimulator
) -> None:
    """Verdicts that the budget does not allow are missing, and are given by the next run."""
    application = produce_application("anthropic", simulator.url)
    judge = EvalJudge(
        name="j", kind="model", question="Good?", model=f"anthropic:{MODELS['anthropic']}"
    )
    suite = ask("1?", judges=[judge])

    report = await run_in(tmp_path, suite, application=application, max_cost=Decimal(0))

    assert not [each for each in simulator.requests if each.method == "POST"]
    assert "the cost is limited" in report.trials[0].reason
    assert str(report.trials[0].state) == "untried"
    assert (report.untried, report.holds) == (1, False)
    assert report.summarize()[0].rate.total == 0
    await application.close()


async def test_a_request_that_the_cap_never_allows_is_foreseen(
    tmp_path: Path, simulator: SynchronousSimulator
) -> None:
    """Without ``max_tokens``, the longest answer of a model is dear."""
    application = produce_application("anthropic", simulator.url)
    model = f"anthropic:{MODELS['anthropic']}"
    brief = EvalSubject(name="brief", model=model, controls={"max_tokens": 10})
    suite = ask("1?", subjects=[EvalSubject(name="long", model=model), brief, ECHO])
    options = EvalOptions(cache=tmp_path, max_cost=Decimal("0.1"))

    async with Evaluation(suite, options, application=application) as evaluation:
        forecast = await evaluation.forecast()

    assert list(forecast.dear_subjects) == ["long"]
    assert forecast.dear_subjects["long"] > 1
    await application.close()


async def test_the_cost_of_judges_is_foreseen(
    tmp_path: Path, simulator: SynchronousSimulator
) -> None:
    """Of answers that are not known yet, and without what is cached."""
    application = produce_application("anthropic", simulator.url)
    model = f"anthropic:{MODELS['anthropic']}"
    judge = EvalJudge(name="j", kind="model", question="Good?", model=model, repeats=3)
    cases = [EvalCase(name="a", prompt="1?"), EvalCase(name="b", prompt="2?", answer="2")]
    suite = ask(cases=cases, judges=[judge])
    simulator.enqueue(*[ScriptedAnswer(parts=(Say(write_judgment(True)),))] * 6)

    async def forecast(cap: str | None) -> EvalForecast:
        options = EvalOptions(cache=tmp_path, max_cost=cap and Decimal(cap))
        async with Evaluation(suite, options, application=application) as evaluation:
            return await evaluation.forecast()

    free = await forecast(None)
    capped = await forecast("0.01")
    report = await run_in(tmp_path, suite, application=application, cache=tmp_path)
    again = await forecast("0.01")

    # 500 tokens of output at $15 for a million, six times, and the input.
    assert Decimal("0.045") < free.judging < Decimal("0.06")
    assert free.dollars == free.judging
    assert free.dear_judges == {}
    assert (capped.judging, list(capped.dear_judges)) == (free.judging, ["j"])
    assert capped.dear_judges["j"] > Decimal("0.01")
    assert report.cost > 0
    assert (again.requests, again.judging, again.dear_judges) == (0, 0, {})
    await application.close()


async def test_answers_and_verdicts_share_the_cap(
    tmp_path: Path, simulator: SynchronousSimulator
) -> None:
    """All of them together cost no more, and the report adds them up."""
    application = produce_application("anthropic", simulator.url)
    model = f"anthropic:{MODELS['anthropic']}"
    controls = {"max_tokens": 50}
    judge = EvalJudge(name="j", kind="model", question="Good?", model=model, controls=controls)
    suite = ask(
        *(f"{number}?" for number in range(12)),
        subjects=[EvalSubject(name="p", model=model, controls=controls)],
        judges=[judge],
        concurrency=1,
    )
    usage = Tokens(received=100, produced=50)
    verdict = ScriptedAnswer(parts=(Say(write_judgment(True)),), usage=usage)
    simulator.enqueue(*[verdict] * 48)
    await run_in(tmp_path, attrs.evolve(suite, judges=[GOOD]), application=application)

    options = EvalOptions(cache=tmp_path / "cache", max_cost=Decimal("0.001"))
    async with Evaluation(suite, options, application=application) as evaluation:
        highest = (await evaluation.forecast()).dear_judges["j"]

    cap = highest + Decimal("0.01")  # of which each trial takes $0.0021
    report = await run_in(tmp_path, suite, application=application, max_cost=cap, fresh=True)

    costs = [
        cost
        for trial in report.trials
        for cost in (trial.answer and trial.answer.cost, *(each.cost for each in trial.verdicts))
        if cost
    ]
    assert 0 < report.cost <= cap
    assert report.cost == pytest.approx(sum(costs))
    assert 0 < report.untried < 12
    assert any(verdict.cost for trial in report.trials for verdict in trial.verdicts)
    await application.close()


async def test_equal_answers_are_judged_once(
    tmp_path: Path, simulator: SynchronousSimulator
) -> None:
    """Also if they come at the same time."""
    application = produce_application("anthropic", simulator.url)
    judge = EvalJudge(
        name="j", kind="model", question="Good?", model=f"anthropic:{MODELS['anthropic']}"
    )
    verdict = write_judgment(True)
    simulator.enqueue(*[ScriptedAnswer(parts=(Say(verdict),))] * 9)

    report = await run_in(
        tmp_path, ask("1?", judges=[judge], repeats=9), application=application, fresh=True
    )

    assert report.holds
    assert len([each for each in simulator.requests if each.method == "POST"]) == 1
    await application.close()


@pytest.mark.parametrize(
    ("votes", "passed", "consistency"),
    [
        ((True, False), False, 0.0),
        ((True, True, False), True, 1 / 3),
        ((False, False, True), False, 1 / 3),
        ((True, True), True, 1.0),
    ],
)
async def test_the_majority_of_the_verdicts_decides(
    tmp_path: Path,
    simulator: SynchronousSimulator,
    votes: tuple[bool, ...],
    passed: bool,
    consistency: float,
) -> None:
    """A tie is not enough."""
    application = produce_application("anthropic", simulator.url)
    judge = EvalJudge(
        name="j",
        kind="model",
        question="Good?",
        model=f"anthropic:{MODELS['anthropic']}",
        repeats=len(votes),
    )
    answers = [ScriptedAnswer(parts=(Say(write_judgment(vote)),)) for vote in votes]
    simulator.enqueue(*answers)

    report = await run_in(tmp_path, ask("1?", judges=[judge]), application=application)

    (verdict,) = report.trials[0].verdicts
    assert (verdict.votes, verdict.passed) == (votes, passed)
    (agreement,) = report.measure_agreements()
    assert agreement.consistency == pytest.approx(consistency)
    await application.close()


async def test_an_unknown_model_is_named_once(tmp_path: Path) -> None:
    unknown = EvalSubject(name="u", model="scripted:ecko")

    with pytest.raises(UnknownNameError, match="ecko"):
        await run_in(tmp_path, ask("1?", "2?", subjects=[unknown]))


async def test_progress_counts_trials(tmp_path: Path) -> None:
    seen: list[tuple[int, int, int]] = []
    model = script_model(tmp_path, "m", write_judgment(True))
    judge = EvalJudge(name="j", kind="model", question="Good?", model=model)

    await run_in(
        tmp_path,
        ask("1?", "2?", judges=[judge]),
        progress=lambda each: seen.append((each.done, each.total, each.passed)),
    )

    assert seen == [(1, 2, 1), (2, 2, 2)]


async def test_no_more_workers_start_than_trials(tmp_path: Path) -> None:
    started = 0

    def start(loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> asyncio.Task[Any]:
        nonlocal started
        started += 1
        return asyncio.Task(work, loop=loop, **options)

    asyncio.get_running_loop().set_task_factory(start)

    await run_in(tmp_path, ask("a", "b", concurrency=5000))

    assert 0 < started < 500


@pytest.mark.parametrize("place", ["subject", "judge", "task"])
async def test_an_edited_script_is_asked_again(tmp_path: Path, place: str) -> None:
    model = script_model(tmp_path, "m", write_judgment(True))
    subjects, judges = [ECHO], [GOOD]
    if place == "judge":
        judges = [EvalJudge(name="j", kind="model", model=model, question="Good?")]
    elif place == "subject":
        subjects = [EvalSubject(name="m", model=model)]
    else:
        (tmp_path / "task.json").write_text(json.dumps(TASK))
        subjects = [EvalSubject(name="m", model=model, task=tmp_path / "task.json")]
    case = EvalCase(name="c", prompt="Say it.", variables={"topic": "tides"})
    suite = ask(cases=[case], subjects=subjects, judges=judges)

    before = (await run_in(tmp_path, suite)).trials[0]
    script_model(tmp_path, "m", write_judgment(False, "No."))
    after = (await run_in(tmp_path, suite)).trials[0]

    if place == "judge":
        assert (before.verdicts[0].passed, after.verdicts[0].passed) == (True, False)
    else:
        assert before.answer is not None
        assert after.answer is not None
        assert (before.answer.is_cached, after.answer.is_cached) == (False, False)


async def test_a_kept_run_needs_no_variables_of_the_suites_prompt(tmp_path: Path) -> None:
    store = DirectoryStore(tmp_path / "run_x")
    conversation = Conversation()
    conversation.add_user_message("Hello.")
    await Engine("scripted:echo", store=store).answer(conversation)
    cases = [
        EvalCase(name="kept", run=tmp_path / "run_x"),
        EvalCase(name="own", variables={"country": "Italy"}),
    ]

    report = await run_in(tmp_path, ask(cases=cases, prompt="Capital of {{ country }}?"))

    texts = [each.answer.text for each in report.trials if each.answer is not None]
    assert texts == ["Hello.", "Capital of Italy?"]


async def test_cases_without_their_tags_are_not_a_selection(tmp_path: Path) -> None:
    suite = ask(cases=[EvalCase(name="a", prompt="a", tags=("x",)), EvalCase(name="b", prompt="b")])

    with pytest.raises(ConfigurationError, match="No case has"):
        await run_in(tmp_path, suite, cases=["b"], tags=["x"])

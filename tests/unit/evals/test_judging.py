"""Judges give verdicts with reasons, whatever answers, functions and models do."""

from __future__ import annotations

import asyncio
import math
import threading
from pathlib import Path
from typing import Any

import attrs
import pytest

from support.evals.suites import replace_script, run_in, script_model, write_judgment
from vibe_llms.evals import function_judges
from vibe_llms.evals.reports import read_report
from vibe_llms.evals.suites import EvalCase, EvalJudge, EvalSubject, Suite
from vibe_llms.evals.trials import JudgeVerdict
from vibe_llms.exceptions import ConfigurationError, UnknownNameError
from vibe_llms.plugins.specification.flows import PredicateContext


async def judge(folder: Path, answer: str, judge: EvalJudge, **case: Any) -> JudgeVerdict:
    """Return the verdict of a judge on a given answer."""
    case = {"prompt": "Which?", "answer": answer, **case}
    report = await run_in(
        folder, Suite(cases=[EvalCase(name="c", **case)], judges=[judge]), fresh=True
    )
    ((verdict,),) = (each.verdicts for each in report.trials)
    return verdict


@pytest.mark.parametrize(
    ("kind", "expected", "answer", "passed"),
    [
        ("contains", "the sea", "It is The\nSea.", True),
        ("contains", "the sea", "It is a lake.", False),
        ("equals", "Paris", " **paris**.\n", True),
        ("equals", "Paris", "Paris, France", False),
        ("contains", 42, "It is 42.", True),
        ("equals", 42, "42", True),
        ("equals", -5, " **-5**.", True),
        ("equals", -5, "5", False),
        ("equals", 0.5, "0.5.", True),
        ("equals", ".5", "5", False),
        ("category", "yes", "YES: it is so.", True),
        ("category", "yes", "Never.", False),
        ("json_schema", {"type": "object", "required": ["a"]}, '```json\n{"a": 1}\n```', True),
        ("json_schema", {"type": "object", "required": ["a"]}, '{"b": 1}', False),
        ("success", None, "The task was completed successfully.", True),
        ("success", None, "Error: it failed.", False),
    ],
)
async def test_the_verifications_of_flows_judge(
    tmp_path: Path, kind: Any, expected: Any, answer: str, passed: bool
) -> None:
    verdict = await judge(tmp_path, answer, EvalJudge(name="j", kind=kind), expected=expected)

    assert verdict.passed is passed
    assert verdict.reason
    assert verdict.score is not None
    assert (verdict.score >= 0.5) is passed


@pytest.mark.parametrize(
    ("value", "passed", "score"),
    [
        (True, True, 1.0),
        (0.75, True, 0.75),
        (0.25, False, 0.25),
        ((False, "Too long."), False, 0.0),
        (math.nan, None, None),
        (math.inf, None, None),
        (2, None, None),
        (None, None, None),
        ("yes", None, None),
    ],
)
async def test_a_function_returns_a_verdict_or_none_counts(
    tmp_path: Path, value: Any, passed: bool | None, score: float | None
) -> None:
    verdict = await judge(
        tmp_path, "?", EvalJudge(name="j", kind="function", function=lambda answer: value)
    )

    assert (verdict.passed, verdict.score) == (passed, score)
    assert verdict.reason


async def test_a_function_that_raises_is_told_and_nothing_else_fails(tmp_path: Path) -> None:
    def fail(answer: str, context: PredicateContext) -> bool:
        raise RuntimeError(f"no {context.variables['expected']}")

    verdict = await judge(
        tmp_path, "?", EvalJudge(name="j", kind="function", function=fail), expected="sea"
    )

    assert verdict.passed is None
    assert "RuntimeError: no sea" in verdict.reason


@pytest.mark.parametrize("kind", ["plain", "asynchronous", "awaitable"])
async def test_a_function_that_hangs_gives_no_verdict(tmp_path: Path, kind: str) -> None:
    """It is an error in words, not a failure, and the other judges judge."""
    released = threading.Event()

    def hang(answer: str) -> bool:
        return released.wait()

    async def hang_asynchronously(answer: str) -> bool:
        return await asyncio.Event().wait()

    functions: dict[str, Any] = {
        "plain": hang,
        "asynchronous": hang_asynchronously,
        "awaitable": lambda answer: hang_asynchronously(answer),
    }
    judges = [
        EvalJudge(name="slow", kind="function", function=functions[kind], time_limit_seconds=0.001),
        EvalJudge(name="quick", kind="function", function=lambda answer: True),
    ]
    suite = Suite(cases=[EvalCase(name="c", prompt="?", answer="a")], judges=judges)

    try:
        (trial,) = (await run_in(tmp_path, suite)).trials
    finally:
        released.set()

    assert [each.passed for each in trial.verdicts] == [None, True]
    assert "slow exceeded its time limit of 0.001 seconds" in trial.reason
    assert str(trial.state) == "error"


async def test_a_function_of_which_all_calls_hang_is_not_called_again(tmp_path: Path) -> None:
    """A thread cannot be stopped, and a thousand cases do not wait one after the other."""
    released, began = threading.Event(), threading.Event()
    calls: list[str] = []

    def hang(answer: str) -> bool:
        calls.append(answer)
        if len(calls) == 16:
            began.set()
        return released.wait()

    cases = [EvalCase(name=f"c{each}", prompt="?", answer=f"a{each}") for each in range(40)]
    judge = EvalJudge(name="slow", kind="function", function=hang, time_limit_seconds=0.001)

    try:
        report = await run_in(tmp_path, Suite(cases=cases, judges=[judge]))
    finally:
        released.set()
    # The thread of a call that is given up may not have begun yet.
    assert await asyncio.to_thread(began.wait, 60)

    assert len(calls) == 16
    assert {str(each.state) for each in report.trials} == {"error"}
    assert "earlier calls exceeded their time limit" in report.trials[-1].reason


async def test_a_function_without_a_limit_takes_its_time(tmp_path: Path) -> None:
    judge = EvalJudge(
        name="j", kind="function", function=lambda answer: True, time_limit_seconds=math.inf
    )

    report = await run_in(
        tmp_path, Suite(cases=[EvalCase(name="c", prompt="?", answer="a")], judges=[judge])
    )

    assert report.trials[0].verdicts[0].passed


async def test_a_file_that_hangs_while_it_is_loaded_is_a_mistake_of_the_suite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is sent, and the end of the program does not wait for it."""
    monkeypatch.setattr(function_judges, "LOADING_SECONDS", 0.001)
    released = tmp_path / "released"
    (tmp_path / "checks.py").write_text(
        "import pathlib, time\n"
        f"while not pathlib.Path({str(released)!r}).exists():\n    time.sleep(0.01)\n"
    )
    judge = EvalJudge(
        name="j", kind="function", function="checks.py:check", time_limit_seconds=0.001
    )
    suite = Suite(
        cases=[EvalCase(name="c", prompt="?", answer="a")], judges=[judge], folder=tmp_path
    )

    try:
        with pytest.raises(ConfigurationError, match=r"checks\.py:check: it takes longer"):
            await run_in(tmp_path, suite)
    finally:
        released.touch()


@pytest.mark.parametrize("schema", [{"type": "nonsense"}, {"properties": 3}])
async def test_an_invalid_schema_is_a_mistake_of_the_suite(tmp_path: Path, schema: Any) -> None:
    judge = EvalJudge(name="form", kind="json_schema")
    cases = [
        EvalCase(name="bad", prompt="?", answer="{}", expected=schema),
        EvalCase(name="good", prompt="?", answer="{}", expected={"type": "object"}),
    ]

    with pytest.raises(ConfigurationError, match=r"case bad: .*invalid JSON Schema") as caught:
        await run_in(tmp_path, Suite(cases=cases, judges=[judge]))

    assert len(caught.value.findings) == 1


async def test_a_schema_that_cannot_be_applied_gives_no_verdict(tmp_path: Path) -> None:
    """As one that refers to another file, which is not fetched."""
    schema = {"$ref": "https://example.org/none.json"}

    verdict = await judge(
        tmp_path, "{}", EvalJudge(name="form", kind="json_schema"), expected=schema
    )

    assert verdict.passed is None
    assert verdict.score is None
    assert "example.org" in verdict.reason


async def test_a_reason_that_is_no_text_can_be_saved(tmp_path: Path) -> None:
    """A function may return bytes of a file as they were read."""

    def fail(answer: str) -> bool:
        raise ValueError("\udce9")

    judges = [
        EvalJudge(name="odd", kind="function", function=lambda answer: (True, "\udce9")),
        EvalJudge(name="fails", kind="function", function=fail),
    ]
    suite = Suite(cases=[EvalCase(name="c", prompt="?", answer="a")], judges=judges)

    report = await run_in(tmp_path, suite)

    report.write(tmp_path / "report.json")
    assert read_report(tmp_path / "report.json") == report
    assert r"\udce9" in report.trials[0].verdicts[0].reason


async def test_functions_come_from_files_and_modules(tmp_path: Path) -> None:
    (tmp_path / "checks.py").write_text(
        "import dataclasses\n\n\n@dataclasses.dataclass\nclass A:\n    b: int\n\n\n"
        "async def is_brief(answer):\n    return len(answer) < 5, f'{len(answer)} characters'\n"
    )
    suite = Suite(
        cases=[EvalCase(name="c", prompt="?", answer="Brief text")],
        judges=[
            EvalJudge(name="file", kind="function", function="checks.py:is_brief"),
            EvalJudge(name="module", kind="function", function="math:isnan"),
        ],
        folder=tmp_path,
    )

    (trial,) = (await run_in(tmp_path, suite)).trials

    assert trial.verdicts[0].reason.endswith("10 characters")
    assert "must be real number" in trial.verdicts[1].reason


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("none.py:f", "No such file"),
        ("broken.py:f", "SystemExit"),
        ("nowhere.at.all:f", "ModuleNotFoundError"),
        ("math:nothing", "no function 'nothing'"),
        ("math:pi", "no function 'pi'"),
    ],
)
async def test_a_function_that_cannot_be_loaded_is_a_mistake_of_the_suite(
    tmp_path: Path, function: str, message: str
) -> None:
    (tmp_path / "broken.py").write_text("raise SystemExit(3)")
    suite = Suite(
        cases=[EvalCase(name="c", prompt="?", answer="a")],
        judges=[EvalJudge(name="j", kind="function", function=function)],
        folder=tmp_path,
    )

    with pytest.raises(ConfigurationError, match=message):
        await run_in(tmp_path, suite)


async def test_predicates_of_the_program_have_names(tmp_path: Path) -> None:
    def is_brief(answer: str) -> bool:
        return len(answer) < 5

    suite = Suite(
        cases=[EvalCase(name="c", prompt="?", answer="a")],
        judges=[
            EvalJudge(name="known", kind="predicate", predicate="is_brief"),
        ],
    )
    mistaken = EvalJudge(name="unknown", kind="predicate", predicate="is_breif")

    (trial,) = (await run_in(tmp_path, suite, predicates=is_brief)).trials

    assert trial.verdicts[0].passed
    with pytest.raises(UnknownNameError, match="is_brief"):  # the nearest name
        await run_in(tmp_path, attrs.evolve(suite, judges=[mistaken]), predicates=is_brief)


async def test_a_model_judges_with_reason_and_confidence(tmp_path: Path) -> None:
    model = script_model(tmp_path, "m", write_judgment(False, "It is rude.", 0.8))

    verdict = await judge(
        tmp_path, "No!", EvalJudge(name="j", kind="model", model=model, question="Is it polite?")
    )

    assert (verdict.passed, verdict.votes) == (False, (False,))
    assert "It is rude." in verdict.reason
    assert verdict.score == pytest.approx(0.2)


async def test_a_model_that_gives_no_verdict_is_told(tmp_path: Path) -> None:
    model = script_model(tmp_path, "m", "I would rather not say.")

    verdict = await judge(
        tmp_path, "No!", EvalJudge(name="j", kind="model", model=model, question="Is it polite?")
    )

    assert verdict.passed is None
    assert verdict.reason


async def test_agreement_is_measured_with_labels_and_with_itself(tmp_path: Path) -> None:
    """A judge that finds everything good is right only as often as the labels are."""
    model = script_model(tmp_path, "m", write_judgment(True))
    cases = [
        EvalCase(name=f"c{number}", prompt="?", answer=f"a{number}", expected_verdict=number < 3)
        for number in range(4)
    ]
    suite = Suite(
        cases=cases,
        judges=[EvalJudge(name="j", kind="model", model=model, question="Good?", repeats=3)],
    )

    report = await run_in(tmp_path, suite)

    (agreement,) = report.measure_agreements()
    assert (agreement.labelled, agreement.accuracy, agreement.kappa) == (4, 0.75, 0.0)
    assert (agreement.repeated, agreement.consistency) == (4, 1.0)
    assert agreement.is_below(suite.thresholds.agreement)
    assert report.summarize() == ()  # given answers are not those of a subject
    assert report.holds


async def test_judgments_are_cached_one_by_one(tmp_path: Path) -> None:
    model = script_model(tmp_path, "m", write_judgment(True))
    suite = Suite(
        cases=[EvalCase(name="c", prompt="?", answer="a")],
        judges=[EvalJudge(name="j", kind="model", model=model, question="Good?", repeats=2)],
    )
    first = await run_in(tmp_path, suite)
    replace_script(tmp_path, "m", write_judgment(False, reason="So it is"))

    second = await run_in(tmp_path, suite)
    fresh = await run_in(tmp_path, suite, fresh=True)
    again = await run_in(tmp_path, suite)

    assert [each.trials[0].verdicts[0].passed for each in (first, second, fresh, again)] == [
        *(True, True, False, False)
    ]


async def test_functions_do_not_change_later_trials(tmp_path: Path) -> None:
    def grow(answer: str, context: Any) -> bool:
        context.variables["xs"].append(1)
        context.variables["expected"]["xs"].append(1)
        return len(context.variables["xs"]) == len(context.variables["expected"]["xs"]) == 2

    case = EvalCase(name="c", prompt="?", variables={"xs": [0]}, expected={"xs": [0]})
    suite = Suite(
        cases=[case],
        subjects=[EvalSubject(name="echo", model="scripted:echo")],
        judges=[EvalJudge(name="j", kind="function", function=grow)],
        repeats=2,
    )

    report = await run_in(tmp_path, suite)

    assert [str(each.state) for each in report.trials] == ["passed", "passed"]

"""Two reports are compared case by case."""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from vibe_llms.evals.comparing import EvalChange, compare_reports
from vibe_llms.evals.reports import SCHEMA, CaseRecord, EvalReport, read_report
from vibe_llms.evals.suites import Thresholds
from vibe_llms.evals.trials import JudgeVerdict, SubjectAnswer, Trial
from vibe_llms.exceptions import ConfigurationError


def produce_report(tolerance: float = 0.0, **cases: str) -> EvalReport:
    """Return a report with a trial for each letter: passed, failed, error or untried."""
    trials = []
    for name, letters in cases.items():
        for repeat, letter in enumerate(letters, 1):
            trial = Trial(case=name, subject="s", repeat=repeat)
            if letter != "u":
                answer = SubjectAnswer(text=f"{name} {repeat}", error="Down." * (letter == "e"))
                trial = attrs.evolve(trial, answer=answer)
            if letter in "pf":
                verdict = JudgeVerdict(judge="j", passed=letter == "p", score=0.5, reason="So.")
                trial = attrs.evolve(trial, verdicts=(verdict,))
            trials.append(trial)
    return EvalReport(
        suite="t",
        created="2026-11-29T12:00:00+00:00",
        version="0",
        cases=tuple(CaseRecord(name=name, prompt=f"{name}?") for name in cases),
        subjects=("s",),
        judges=("j",),
        trials=tuple(trials),
        thresholds=Thresholds(regression=tolerance),
    )


def test_changes_are_told_apart() -> None:
    earlier = produce_report(same="pf", worse="pp", better="ff", gone="p", broken="p", left="p")
    later = produce_report(same="fp", worse="pf", better="fp", new="f", broken="e", left="u")

    comparison = compare_reports(earlier, later)

    found = {each.case: each.change for each in comparison.differences}
    assert found == {
        "same": EvalChange.SAME,
        "worse": EvalChange.WORSE,
        "better": EvalChange.BETTER,
        "new": EvalChange.NEW,
        "broken": EvalChange.WORSE,
        "left": EvalChange.UNTRIED,
        "gone": EvalChange.GONE,
    }
    assert [each.case for each in comparison.regressions] == ["worse", "broken"]


def test_the_trials_that_show_a_regression_are_found() -> None:
    comparison = compare_reports(produce_report(a="fpp"), produce_report(a="pff"))

    (difference,) = comparison.regressions
    assert difference.earlier is not None
    assert difference.later is not None
    assert (difference.earlier.repeat, difference.later.repeat) == (2, 2)


def test_a_tolerated_decrease_is_worse_but_no_regression() -> None:
    earlier = produce_report(a="p" * 10)

    tolerated = compare_reports(earlier, produce_report(0.1, a="p" * 9 + "f"))
    refused = compare_reports(earlier, produce_report(0.1, a="p" * 8 + "ff"))
    # In binary fractions, 0.8 - 0.7 is more than 0.1.
    exact = compare_reports(produce_report(a="ppppppppff"), produce_report(0.1, a="pppppppfff"))

    assert tolerated.select(EvalChange.WORSE)
    assert not tolerated.regressions
    assert exact.select(EvalChange.WORSE)
    assert not exact.regressions
    assert refused.regressions


def test_a_changed_prompt_is_marked() -> None:
    earlier = produce_report(a="p")
    edited = attrs.evolve(earlier, cases=(CaseRecord(name="a", prompt="Else?"),))

    assert compare_reports(edited, earlier).differences[0].is_edited
    assert not compare_reports(earlier, earlier).differences[0].is_edited


def test_a_report_survives_its_file(tmp_path: Path) -> None:
    report = produce_report(a="pfeu", b="p")
    path = tmp_path / "report.json"

    report.write(path)

    assert read_report(path) == report
    summary = report.export()["summary"]
    assert summary["subjects"][0]["rate"]["passed"] == 2
    assert (summary["holds"], summary["untried"]) == (False, 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a report"),
        ("[]", "not a report"),
        ('{"schema": 1}', "not a report"),
        ('{"schema": "vibe-llms-eval-report/9"}', "Unknown schema"),
        (f'{{"schema": "{SCHEMA}", "suite": 1}}', "damaged"),
        ("[" * 100_000, "not a report"),
    ],
)
def test_what_is_no_report_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "report.json"
    path.write_text(text)

    with pytest.raises(ConfigurationError, match=message):
        read_report(path)


def test_a_report_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    produce_report(a="p").write(path)
    path.write_bytes(path.read_bytes().replace(b'"a 1"', b'"\xff"'))

    with pytest.raises(ConfigurationError, match="damaged"):
        read_report(path)

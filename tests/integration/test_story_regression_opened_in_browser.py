"""Story: a person runs an eval of a new version, and opens the regression on its page."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from support.evals.suites import script_model, write_judgment
from support.screens.browsers import Tab
from support.screens.command_line import VIBE, produce_environment
from vibe_llms.evals.report_pages import compose_report_page
from vibe_llms.evals.reports import CaseRecord, EvalReport
from vibe_llms.evals.trials import JudgeVerdict, SubjectAnswer, Trial

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="module")]

ATTACK = """</pre></details></script><script>document.title = "CHANGED"</script>
<img src=x onerror='document.title = "CHANGED"'><img src="https://example.org/x.png">
<meta http-equiv="refresh" content="0;url=data:text/html,CHANGED">"""

SUITE = """
[[subjects]]
name = "assistant"
model = "{model}"
system = "{system}"

[[judges]]
name = "mentions"
kind = "contains"

[[judges]]
name = "polite"
kind = "model"
model = "{judge}"
question = "Is it polite?"

[[cases]]
name = "<script>opening hours</script>"
prompt = "When do you open?"
expected = "nine"
tags = ["hours"]

[[cases]]
name = "parking"
prompt = "May I park here?"
expected = "park"
"""

OPEN = "Array.from(document.querySelectorAll('.case[open]'), (each) => each.id).join()"
SHOWN = (
    "Array.from(document.querySelectorAll('.case:not([hidden]) > summary b'), (e) => e.textContent)"
)


async def run_vibe(folder: Path, *arguments: str) -> tuple[int, str]:
    """Run a command line in a folder; return its exit code, and what it prints."""
    process = await asyncio.create_subprocess_exec(
        *VIBE,
        *arguments,
        cwd=folder,
        env=produce_environment(folder),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode()


def write_version(folder: Path, judge: str, hours: str, system: str) -> None:
    """Write the suite of a version of the assistant."""
    model = script_model(folder, "m", open=hours, park="Yes, you may park here.")
    text = SUITE.format(model=model, system=system, judge=judge)
    (folder / "suite.toml").write_text(text, "utf-8")


async def test_a_regression_is_opened(tab: Tab, tmp_path: Path) -> None:
    judge = script_model(
        tmp_path,
        "j",
        write_judgment(True, "It greets."),
        Closed=write_judgment(False, "It is curt."),
    )
    write_version(tmp_path, judge, "Good morning, we open at nine.", "Be kind.")
    code, told = await run_vibe(tmp_path, "eval", "suite.toml", "-o", "before.json")
    assert code == 0, told
    write_version(tmp_path, judge, f"Closed until ten. {ATTACK}", "Be brief.")

    options = ("--against", "before.json", "--html", "report.html")
    code, told = await run_vibe(tmp_path, "eval", "suite.toml", *options)

    assert code == 1, told
    assert "worse" in told
    await tab.open(tmp_path / "report.html")
    assert await tab.evaluate("document.querySelector('h1 .mark').textContent") == "✗ 1 regression"
    assert await tab.evaluate("document.querySelector('#count').textContent") == "2 of 2 shown"

    # The regression comes first, and the keyboard opens it.
    await tab.evaluate("document.querySelector('.case summary').focus()")
    await tab.press("Enter")
    assert await tab.evaluate(OPEN) == "case-0"
    summary = await tab.evaluate("document.querySelector('#case-0 summary').textContent")
    assert "worse" in summary
    assert "<script>opening hours</script>" in summary
    assert "1/1 → 0/1 passed" in summary

    # Both answers stand side by side, with the words that differ, and both verdicts.
    places = "Array.from(document.querySelectorAll('#case-0 .pair > section'), (each) => {0})"
    lefts = await tab.evaluate(places.format("each.getBoundingClientRect().left"))
    tops = await tab.evaluate(places.format("each.getBoundingClientRect().top"))
    assert lefts[0] < lefts[1]
    assert tops[0] == tops[1]
    text = await tab.evaluate("document.querySelector('#case-0 .answer del').textContent")
    assert text == "Good"
    added = "Array.from(document.querySelectorAll('#case-0 .answer ins'), (e) => e.textContent)"
    assert "onerror" in "".join(await tab.evaluate(added))
    verdicts = await tab.evaluate(
        places.format("Array.from(each.querySelectorAll('.verdicts li p'), (p) => p.textContent)")
    )
    assert "It greets." in verdicts[0][1]
    assert "does not contain 'nine'" in verdicts[1][0]
    assert "It is curt." in verdicts[1][1]
    regions = [name for role, name, _ in await tab.survey_tree() if role == "region"]
    assert regions == ["Before", "Now"]

    # Only regressions are listed if the person asks for them; then the search finds nothing else.
    choose = "const k = document.querySelector('#kind'); k.value = 'regression';"
    await tab.evaluate(choose + "k.dispatchEvent(new Event('change'))")
    assert await tab.evaluate(SHOWN) == ["<script>opening hours</script>"]
    await tab.evaluate("document.querySelector('#words').focus()")
    await tab.type("parking")
    await tab.wait_for("document.querySelector('#count').textContent === '0 of 2 shown'")

    # On a phone, the answers stand below each other, and nothing is cut off.
    await tab.look(width=380)
    assert await tab.evaluate("document.documentElement.scrollWidth") <= 380
    assert await tab.evaluate("document.title") == "Eval of suite"
    assert tab.complaints == []
    assert [each for each in tab.requests if not each.startswith("file:")] == []


async def test_nothing_that_a_report_says_is_executed(tab: Tab, tmp_path: Path) -> None:
    """Every text of a report is hostile, and shown as it is."""
    verdict = JudgeVerdict(judge=ATTACK, passed=None, reason=ATTACK)
    trials = (
        Trial(
            case=ATTACK,
            subject=ATTACK,
            answer=SubjectAnswer(text=ATTACK, model=ATTACK),
            verdicts=(verdict,),
        ),
        Trial(case=ATTACK, subject=ATTACK, repeat=2, answer=SubjectAnswer(error=ATTACK)),
    )
    record = CaseRecord(name=ATTACK, prompt=ATTACK, expected=ATTACK, tags=(ATTACK,))
    report = EvalReport(
        suite=ATTACK,
        created=ATTACK,
        version=ATTACK,
        cases=(record,),
        subjects=(ATTACK,),
        judges=(ATTACK,),
        trials=trials,
    )
    path = tmp_path / "report.html"
    path.write_text(compose_report_page(report, report), encoding="utf-8")

    await tab.open(path)
    await tab.evaluate("document.querySelectorAll('details').forEach((e) => { e.open = true })")

    policy = "document.querySelector('meta[http-equiv=\"Content-Security-Policy\"]').content"
    rules = dict(each.strip().split(" ", 1) for each in (await tab.evaluate(policy)).split(";"))
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    assert all(rules[name].startswith("'sha256-") for name in ("script-src", "style-src"))
    assert (await tab.evaluate("document.title")).startswith("Eval of </pre>")
    assert await tab.evaluate("document.querySelectorAll('img, iframe, .case script').length") == 0
    shown = await tab.evaluate("document.querySelector('main').textContent")
    assert shown.count("onerror=") >= 9
    assert tab.complaints == []
    assert [each for each in tab.requests if not each.startswith("file:")] == []

"""The page of two reports shows every text as text, whoever has written it."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import attrs
import pytest

from vibe_llms.evals.report_pages import compose_report_page
from vibe_llms.evals.reports import CaseRecord, EvalReport
from vibe_llms.evals.trials import JudgeVerdict, SubjectAnswer, Trial

HOSTILE = [
    "</script><script>evil()</script>",
    '" onclick="evil()',
    "'><img src=x onerror=evil()>",
    "--><b>evil",
    "</pre></details><style>evil",
    "{title}{0}%s",
    "\u202eevil\x1b]0;evil\x07",
    "&lt;evil&gt;",
]


class _Reader(HTMLParser):
    """Collects the tags of a page, its attributes, and its texts outside of the script."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: set[str] = set()
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes.update(name for name, _ in attrs)

    def handle_data(self, data: str) -> None:
        if self.tags[-1:] != ["script"]:
            self.texts.append(data)


def produce_report(text: str, answer: str, passed: bool) -> EvalReport:
    """Return a report in which every text is the same one."""
    verdict = JudgeVerdict(judge=text, passed=passed, reason=text, votes=(True, False))
    trial = Trial(
        case=text,
        subject=text,
        answer=SubjectAnswer(text=answer, model=text),
        verdicts=(verdict,),
    )
    failed = Trial(case=text, subject=text, repeat=2, answer=SubjectAnswer(error=text))
    record = CaseRecord(name=text, prompt=answer, expected=text, tags=(text,))
    return EvalReport(
        suite=text,
        created=text,
        version=text,
        cases=(record,),
        subjects=(text,),
        judges=(text,),
        trials=(trial, failed),
    )


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_texts_add_no_markup(text: str) -> None:
    """Neither in one report nor in two that differ; plain ones have the same tags."""
    report = produce_report(text, text, passed=False)
    plain = produce_report("plain", "plain", passed=False)
    earlier = produce_report(text, f"{text} {text}", passed=True)
    plain_earlier = produce_report("plain", "plain plain", passed=True)

    for page, plain_page in (
        (compose_report_page(report), compose_report_page(plain)),
        (compose_report_page(report, earlier), compose_report_page(plain, plain_earlier)),
    ):
        reader, plain_reader = _Reader(), _Reader()
        reader.feed(page)
        plain_reader.feed(plain_page)
        marks = {"ins", "del"}
        assert [each for each in reader.tags if each not in marks] == [
            each for each in plain_reader.tags if each not in marks
        ]
        assert reader.attributes == plain_reader.attributes
        assert any(("evil" if "evil" in text else text) in each for each in reader.texts)


def test_an_edited_prompt_shows_what_was_removed_and_added() -> None:
    """As text, whatever it has; an equal prompt has no marks."""
    report = produce_report("plain", "Name the <b>longest</b> river.", passed=True)
    earlier = produce_report("plain", "Name the <b>widest</b> river.", passed=True)

    page = compose_report_page(report, earlier)
    same = compose_report_page(report, report)

    prompt = re.search(r'<pre class="prompt" dir="auto">(.*?)</pre>', page)
    assert prompt is not None
    assert prompt[1].count("<del>") == prompt[1].count("<ins>") > 0
    without = re.sub("<ins>.*?</ins>", "", prompt[1]).replace("<del>", "").replace("</del>", "")
    assert without == "Name the &lt;b&gt;widest&lt;/b&gt; river."
    assert "<del>" not in same


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00", "?"])
def test_a_report_of_any_time_has_a_page(moment: str) -> None:
    report = attrs.evolve(produce_report("a", "a", passed=True), created=moment)

    assert moment[:4] in compose_report_page(report)

"""``vibe batch --channel vendor``: the price both ways, a question, then the vendor's batches."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from support.screens.keyboards import Keyboard
from vibe_llms.batches.submitting import ChunkCourse, ChunkNews
from vibe_llms.batches.vendor_backend import Forecast
from vibe_llms.exceptions import ConverseError
from vibe_llms.interfaces.cli.batches.vendor import VendorReporter, describe_prices
from vibe_llms.interfaces.cli.command_line import run
from vibe_llms.interfaces.cli.errors import ExitCode
from vibe_llms.testing.simulator import SynchronousSimulator

Vibe = Callable[..., Any]

COMMAND = ("batch", "prompts.jsonl", "-o", "answers.jsonl", "--channel", "vendor")
MODEL = ("-m", "anthropic:claude-sonnet-4-5")


@pytest.fixture
def simulator(monkeypatch: pytest.MonkeyPatch, home: Path) -> Iterator[SynchronousSimulator]:
    """The vendor, and a file of three prompts."""
    lines = ('"one"', '{"prompt": "two", "id": "b"}', '"three"')
    (home / "prompts.jsonl").write_text("\n".join(lines))
    with SynchronousSimulator() as running:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-simulated")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", running.access_url("batch_polls=1"))
        yield running


def read_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_the_price_is_told_both_ways_and_agreed_to(
    vibe: Vibe, home: Path, simulator: SynchronousSimulator
) -> None:
    """With --yes nobody is asked; at the end is told what it came to, at half the price."""
    outcome = vibe(*COMMAND, *MODEL, "--yes")

    assert outcome.code == 0, outcome.err
    assert outcome.out == ""
    assert "3 requests to anthropic:claude-sonnet-4-5, about" in outcome.err
    usual = re.search(r"One by one: +about \$([0-9.]+), plus \$15.00 for each million", outcome.err)
    batch = re.search(r"As a batch: +about \$([0-9.]+), plus \$7.50 for each million", outcome.err)
    assert usual
    assert batch
    assert Decimal(usual[1]) == 2 * Decimal(batch[1]) > 0
    assert re.search(r"Submitted 3 requests as msgbatch_\w+\.", outcome.err)
    assert "3 done, 0 failed" in outcome.err
    lines = read_lines(home / "answers.jsonl")
    assert [(line["id"], line["text"]) for line in lines] == [
        (None, "one"),
        ("b", "two"),
        (None, "three"),
    ]
    used = re.search(r"; (\d+) tokens in, (\d+) out, \$([0-9.]+)\.\n", outcome.err)
    assert used
    half = (int(used[1]) * 3 + int(used[2]) * 15) / 2_000_000
    assert float(used[3]) == pytest.approx(half, rel=0.005)
    assert [path.name for path in home.glob("answers*")] == ["answers.jsonl"]


def test_nothing_is_submitted_where_nobody_can_be_asked(
    vibe: Vibe, home: Path, simulator: SynchronousSimulator
) -> None:
    """Both prices are told nevertheless, with the way to agree."""
    outcome = vibe(*COMMAND, *MODEL)

    assert outcome.code == ExitCode.CONSENT
    assert "As a batch:" in outcome.err
    assert "--yes" in outcome.err
    assert not simulator.requests
    assert not (home / "answers.jsonl.chunks").exists()


@pytest.mark.parametrize(("answer", "submissions"), [("n", 0), ("y", 1)])
def test_whoever_is_asked_agrees_or_not(
    home: Path,
    simulator: SynchronousSimulator,
    keyboard: Keyboard,
    answer: str,
    submissions: int,
) -> None:
    """The question says how many requests, and to whom; no is no."""
    shown: list[str] = []
    keyboard.plug_in()
    keyboard.answer("[y/N]", f"{answer}\n", shown.append)

    code = run((*COMMAND, *MODEL))

    assert code == (ExitCode.SUCCESS if submissions else ExitCode.CONSENT)
    assert "Submit 3 requests as a batch to anthropic? [y/N]" in shown[0]
    made = [each for each in simulator.requests if each.method == "POST"]
    assert len(made) == submissions


def test_what_is_there_is_read_without_a_question(
    vibe: Vibe, home: Path, simulator: SynchronousSimulator
) -> None:
    """The same command says in JSON what there is, and asks for nothing new."""
    vibe(*COMMAND, *MODEL, "--yes")
    asked = len(simulator.requests)

    outcome = vibe(*COMMAND, *MODEL, "--json")

    assert outcome.code == 0, outcome.err
    summary = json.loads(outcome.out)
    assert (summary["stored"], summary["done"], summary["output"]) == (3, 0, "answers.jsonl")
    assert len(simulator.requests) == asked


def test_failures_are_told_of_and_asked_again(
    vibe: Vibe, home: Path, simulator: SynchronousSimulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By their kinds, with the way to ask again."""
    monkeypatch.setenv("ANTHROPIC_BASE_URL", simulator.access_url("batch_errors,batch_expires"))
    failed = vibe(*COMMAND, *MODEL, "--yes")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", simulator.access_url("batch_polls=1"))
    again = vibe(*COMMAND, *MODEL, "--yes", "--retry-failed", "--json")

    assert failed.code == ExitCode.INCOMPLETE
    assert "provider (timeout)" in failed.err
    assert "its batch expired before it was answered" in failed.err
    assert "--retry-failed" in failed.err
    assert again.code == 0, again.err
    summary = json.loads(again.out)
    assert (summary["done"], summary["stored"], summary["failed"]) == (2, 1, 0)
    sent, answered = summary["input_tokens"], summary["output_tokens"]
    assert summary["cost_usd"] == pytest.approx((sent * 3 + answered * 15) / 2_000_000)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (("prompts.jsonl", "--channel", "vendor"), "needs --output"),
        (("-", "--channel", "vendor", "-o", "x"), "needs a FILE"),
        (("prompts.jsonl", "--channel", "vendor", "-o", "x", "--window", "drop"), "--window"),
        (("prompts.jsonl", "--cancel"), "--cancel needs --channel vendor"),
        (("prompts.jsonl", "--resubmit"), "--resubmit needs --channel vendor"),
    ],
)
def test_options_that_do_not_go_together_are_refused(
    vibe: Vibe, simulator: SynchronousSimulator, options: tuple[str, ...], reason: str
) -> None:
    """With the reason."""
    outcome = vibe("batch", *options, *MODEL)

    assert outcome.code == ExitCode.USAGE
    assert reason in outcome.err


def test_a_provider_without_batches_is_refused(vibe: Vibe, simulator: SynchronousSimulator) -> None:
    """Naming those that have some; no output is begun."""
    outcome = vibe(*COMMAND, "-m", "scripted:echo", "--yes")

    assert outcome.code == ExitCode.REQUEST
    assert "The provider scripted does not support batches" in outcome.err
    assert "Use one of anthropic, google, openai_conversations, openai," in outcome.err


def test_nothing_to_cancel_is_said(vibe: Vibe, home: Path, simulator: SynchronousSimulator) -> None:
    """And nothing is submitted."""
    outcome = vibe(*COMMAND, *MODEL, "--cancel")

    assert outcome.code == 0
    assert "no batch for answers.jsonl" in outcome.err
    assert not simulator.requests


@pytest.mark.parametrize("options", [(), ("--runner", "sqlite:///runs.db")])
def test_what_is_at_the_vendor_is_not_asked_for_in_another_way(
    vibe: Vibe, home: Path, simulator: SynchronousSimulator, options: tuple[str, ...]
) -> None:
    """Neither here nor by workers: it would be bill them twice."""
    (home / "answers.jsonl.chunks").touch()

    outcome = vibe("batch", "prompts.jsonl", "-o", "answers.jsonl", *MODEL, *options)

    assert outcome.code == ExitCode.REQUEST
    assert "bill them twice" in outcome.err
    assert not simulator.requests


def test_prices_that_are_not_known_are_not_told() -> None:
    """But the reason is; unfit inputs are counted."""
    forecast = Forecast(
        provider="anthropic", name="claude-of-tomorrow", requests=2, input_tokens=90, unfit=1
    )

    lines = describe_prices(forecast)

    assert lines[0].endswith("about 90 tokens; 1 more cannot be asked.")
    assert lines[1].startswith("Their cost is unknown: ")
    assert len(lines) == 2


def test_news_of_batches_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    """What is at the vendor is summed up beside the counts."""
    reporter = VendorReporter()
    for _ in range(3):
        reporter.report(ChunkNews(course=ChunkCourse.WAITING, requests=7))
    reporter.report(ChunkNews(course=ChunkCourse.FOUND, vendor="a", requests=7))
    reporter.report(ChunkNews(course=ChunkCourse.SUBMITTED, vendor="b", requests=5))
    reporter.report(ChunkNews(course=ChunkCourse.WAITING, vendor="b", requests=5, done=2))

    assert reporter.describe() == "12 in 2 batches at the vendor, 2 of them answered"
    reporter.report(ChunkNews(course=ChunkCourse.ENDED, vendor="b", requests=5))
    reporter.report(ChunkNews(course=ChunkCourse.LOST, vendor="a", requests=7))
    reporter.report(ChunkNews(course=ChunkCourse.ABSENT, requests=7))
    reporter.report(ChunkNews(course=ChunkCourse.DOUBTFUL, requests=7, error=ConverseError()))
    assert reporter.describe() == ""
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 6
    assert told[0].startswith("Checking whether the vendor received 7 requests")


def test_an_embedder_has_no_price_for_answers(
    vibe: Vibe, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / "texts.jsonl").write_text('"one"\n{"text": "two", "id": "b"}\n')
    with SynchronousSimulator() as vendor:
        monkeypatch.setenv("OPENAI_API_KEY", "sk-simulated")
        monkeypatch.setenv("OPENAI_BASE_URL", f"{vendor.access_url('batch_polls=1')}/v1")
        model = ("-m", "openai:text-embedding-3-large")
        outcome = vibe(
            *("batch", "texts.jsonl", "--genus", "embedder", *model, "--channel", "vendor"),
            *("-o", "vectors.jsonl", "--yes"),
        )
    assert outcome.code == 0, outcome.err
    usual = re.search(r"One by one: +about \$([0-9.]+)\.\n", outcome.err)
    batch = re.search(r"As a batch: +about \$([0-9.]+)\.\n", outcome.err)
    assert usual
    assert batch
    assert "2 done, 0 failed" in outcome.err
    lines = read_lines(home / "vectors.jsonl")
    assert [(line["id"], line["tier"], len(line["value"])) for line in lines] == [
        (None, "batch", 8),
        ("b", "batch", 8),
    ]

"""``vibe batch --runner`` hands a batch over; ``vibe batches`` follows and stops it."""

from __future__ import annotations

import json
import logging
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from support.batches.batching import NEEDS_DBOS
from vibe_llms.batches.batch_specs import BatchSummary
from vibe_llms.interfaces.cli.batches.shared import RecentRate

Vibe = Callable[..., Any]
ANSWERS = [(0, None, "Who?"), (1, "w", "Where?"), (2, None, "When?")]
"""Index, identity and text of what is answered to the prompts."""


@pytest.fixture(autouse=True)
def forget_dbos() -> Iterator[None]:
    """Takes away what DBOS writes its remarks with: to the standard error of one test."""
    yield
    logging.getLogger("dbos").handlers.clear()


@pytest.fixture
def prompts(home: Path) -> str:
    lines = ["Who?", {"prompt": "Where?", "id": "w"}, "When?"]
    (home / "prompts.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return "prompts.jsonl"


@pytest.mark.slow
@NEEDS_DBOS
def test_a_batch_is_left_to_workers_and_followed(vibe: Vibe, home: Path, prompts: str) -> None:
    """By any command, from anywhere; the one that has asked for it works at it, too."""
    runner = ["--runner", f"sqlite:///{home}/runner.db"]
    left = vibe("batch", prompts, *runner, "--detach", "--priority", "3")
    assert left.code == 0, left.err
    assert "batches watch" in left.err
    (found,) = json.loads(vibe("batches", "list", *runner, "--json").out)
    assert (found["state"], found["total"], found["done"]) == ("open", 3, 0)
    name = found["batch"][:6]
    assert "Stopped: batch" in vibe("batches", "stop", name, *runner).err
    followed = vibe("batches", "watch", name, *runner)
    assert followed.code != 0
    assert "was stopped: 0 of 3 are done" in followed.err
    assert "Resumed" in vibe("batches", "resume", name, *runner).err

    same = [*runner, "--priority", "3"]
    done = vibe("batch", prompts, *same, "--output", "answers.jsonl", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["batch"] == found["batch"]
    rows = [json.loads(line) for line in (home / "answers.jsonl").read_text("utf-8").splitlines()]
    assert [(row["index"], row.get("id"), row["text"]) for row in rows] == ANSWERS
    shown = vibe("batches", "results", name, *runner)
    assert [json.loads(line)["text"] for line in shown.out.splitlines()] == [
        "Who?",
        "Where?",
        "When?",
    ]
    with closing(sqlite3.connect(home / "runner.db")) as database:
        database.execute("INSERT INTO vibe_doubts VALUES (?, 0, 1, 3)", (found["batch"],))
        database.commit()
    assert "Up to 3 inputs were asked again" in vibe("batches", "watch", name, *runner).err
    assert json.loads(vibe("batches", "list", *runner, "--json").out)[0]["doubted"] == 3
    assert "done" in vibe("batches", "list", *runner).out
    assert vibe("batches", "delete", name, *runner, "--yes").code == 0
    assert "no batches" in vibe("batches", "list", *runner).err
    assert vibe("batches", "watch", name, *runner).code == 4


@pytest.mark.parquet
@NEEDS_DBOS
def test_results_of_a_runner_become_a_table(vibe: Vibe, home: Path, prompts: str) -> None:
    from pyarrow import parquet

    runner = ["--runner", f"sqlite:///{home}/runner.db"]
    done = vibe("batch", prompts, *runner, "--output", "answers.parquet", "--json")
    assert done.code == 0, done.err
    rows = parquet.read_table(home / "answers.parquet").to_pylist()
    assert [(row["index"], row["id"], row["text"]) for row in rows] == ANSWERS


@pytest.mark.parquet
def test_lines_become_a_table(vibe: Vibe, home: Path, prompts: str) -> None:
    from pyarrow import parquet

    vibe("batch", prompts, "--output", "answers.jsonl")
    assert vibe("batches", "convert", "answers.jsonl", "answers.parquet").code == 0
    rows = parquet.read_table(home / "answers.parquet").to_pylist()
    assert [row["text"] for row in rows] == ["Who?", "Where?", "When?"]
    assert [row["failed"] for row in rows] == [False] * 3


@pytest.mark.parquet
def test_vectors_become_a_column(vibe: Vibe, home: Path) -> None:
    from pyarrow import parquet

    (home / "texts.jsonl").write_text('"the sea"\n"the sky"\n')
    command = ("batch", "texts.jsonl", "--genus", "embedder", "-m", "scripted:words")
    assert vibe(*command, "--dimensions", "4", "-o", "vectors.jsonl").code == 0
    assert vibe("batches", "convert", "vectors.jsonl", "vectors.parquet").code == 0
    lines = [json.loads(line) for line in (home / "vectors.jsonl").read_text().splitlines()]
    table = parquet.read_table(home / "vectors.parquet")
    assert str(table.schema.field("vector").type) == "list<element: float>"
    rows = table.to_pylist()
    assert [row["vector"] for row in rows] == [line["value"] for line in lines]
    assert [row["value"] for row in rows] == [None, None]


@pytest.mark.parquet
@pytest.mark.parametrize(
    "line",
    [b"not a line", b'"Who?"', b"\xff\xfe", b"", b'{"index": "a"}', b'{"x":' + b"[" * 99_999],
)
def test_what_is_no_line_of_a_batch_becomes_no_table(vibe: Vibe, home: Path, line: bytes) -> None:
    whole = b'{"index": 0, "id": null, "text": "a", "usage": null, "origin": null, "seconds": 1.0}'
    (home / "answers.jsonl").write_bytes(whole + b"\n" + line + b"\n")
    outcome = vibe("batches", "convert", "answers.jsonl", "answers.parquet")
    assert outcome.code == 7
    assert "answers.jsonl:2: the line is not of a batch" in outcome.err
    assert outcome.err.count("\n") == 1
    assert [each.name for each in home.glob("*answers*")] == ["answers.jsonl"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--cap", "2", "--channel", "vendor"], "--cap"),
        (["--detach", "--runner", "local:"], "--detach needs --runner"),
        (["--key", "k"], "--key needs --runner"),
        (["--channel", "vendor", "--retries", "2", "-o", "a"], "--retry-failed"),
        (["--cap", "much", "--runner", "sqlite:///r.db"], "not an amount of dollars"),
        (["--cap", "NaN", "--runner", "sqlite:///r.db"], "not an amount of dollars"),
        (["--output", "answers.parquet"], "vibe batches convert"),
        (["--runner", "sqlite:///r.db", "--channel", "vendor", "-o", "a"], "--runner"),
        (["--runner", "mysql://x"], "is not a database of a runner"),
    ],
)
def test_what_does_not_go_together_is_said(
    vibe: Vibe, home: Path, prompts: str, words: list[str], told: str
) -> None:
    outcome = vibe("batch", prompts, *words)
    assert outcome.code in (2, 3)
    assert told in outcome.err
    assert sorted(path.name for path in home.iterdir() if path.suffix != ".toml") == [prompts]


@NEEDS_DBOS
@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--cap", "2"], "unknown"),
        (["--model", "nobody:x"], "nobody"),
    ],
)
def test_what_every_input_would_be_refused_for_leaves_nothing_behind(
    vibe: Vibe, home: Path, prompts: str, words: list[str], told: str
) -> None:
    """Neither a database nor a batch."""
    outcome = vibe("batch", prompts, "--runner", f"sqlite:///{home}/r.db", *words)
    assert outcome.code != 0
    assert told in outcome.err
    assert not list(home.glob("r.db*"))


def test_the_pace_tells_items_rate_tokens_money_and_time_left() -> None:
    now = [0.0]
    pace = RecentRate(lambda: now[0])

    def look(seconds: float, done: int) -> str:
        now[0] = seconds
        found = BatchSummary(
            id="b",
            state="open",
            total=10_000,
            done=done,
            failed=2,
            input_tokens=3_000,
            output_tokens=1_500,
            cost=Decimal("1.234"),
            cap=Decimal(5),
        )
        pace.record(found)
        return pace.describe(found)

    first = look(0.0, 4_000)
    assert first == "4,000/10,000  0.0/s  2 failed  4,500 tokens  $1.23 of $5.00"
    assert look(10.0, 4_500).startswith("4,500/10,000  50.0/s  2 failed")
    assert look(10.0, 4_500).endswith("$1.23 of $5.00  1:50 left")


@pytest.mark.parametrize("words", [[], ["--runner", "sqlite:///r.db"]])
@pytest.mark.parametrize("output", ["prompts.jsonl", "./prompts.jsonl"])
def test_the_inputs_are_not_replaced_by_the_answers(
    vibe: Vibe, home: Path, prompts: str, words: list[str], output: str
) -> None:
    before = (home / prompts).read_bytes()
    outcome = vibe("batch", prompts, *words, "--output", output)
    assert outcome.code == 2
    assert f"--output {output} is the input file" in outcome.err
    assert (home / prompts).read_bytes() == before


@NEEDS_DBOS
def test_to_look_for_batches_makes_no_database(vibe: Vibe, home: Path) -> None:
    """Who has mistyped its name is told, rather than shown that it is empty."""
    for words in (["list"], ["watch", "abc"], ["delete", "abc", "--yes"]):
        outcome = vibe("batches", *words, "--runner", "sqlite:///mistyped.db")
        assert outcome.code == 7
        assert "sqlite:///mistyped.db: the file does not exist." in outcome.err
    assert not (home / "mistyped.db").exists()


def test_a_table_is_named_as_one(vibe: Vibe, home: Path, prompts: str) -> None:
    outcome = vibe("batches", "convert", prompts, "table.txt")
    assert outcome.code == 2
    assert "table.txt does not end in .parquet" in outcome.err
    assert not (home / "table.txt").exists()


def test_the_same_words_go_with_local(vibe: Vibe, home: Path, prompts: str) -> None:
    """One URL is to change nothing else."""
    words = ("--key", "k", "--retries", "2", "--priority", "3", "--runner", "local:")
    outcome = vibe("batch", prompts, *words)
    assert outcome.code == 0, outcome.err
    assert "3 done" in outcome.err

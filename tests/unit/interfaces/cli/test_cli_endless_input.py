"""A pipe without an end: one line names the limit, and not much more than that is read."""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from vibe_llms.foundation import files
from vibe_llms.interfaces.cli import media, pipes, texts
from vibe_llms.interfaces.cli.batches import inputs
from vibe_llms.interfaces.cli.chat import console
from vibe_llms.interfaces.cli.command_line import run
from vibe_llms.interfaces.cli.commands.batches import watching

Vibe = Callable[..., Any]

MEGABYTE = 1_000_000


@contextmanager
def writing(megabytes: int) -> Iterator[tuple[int, list[int]]]:
    """Write into a pipe until it is closed; yield its other end, and how much was written."""
    reading, target = os.pipe()
    written = [0]

    def write() -> None:
        with suppress(BrokenPipeError), os.fdopen(target, "wb", buffering=0) as file:
            for _ in range(megabytes * 20):
                written[0] += file.write(b"a" * (MEGABYTE // 20))

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield reading, written
    finally:
        with suppress(OSError):
            os.close(reading)
        thread.join()


@pytest.mark.parametrize(
    "words",
    [
        ("eval", "suite.toml", "--against", "PIPE"),
        ("ask", "-m", "scripted:echo", "--schema", "PIPE", "Hello."),
        ("ask", "-m", "scripted:echo", "-f", "PIPE", "Hello."),
        ("batch", "questions.jsonl", "-m", "scripted:echo", "--schema", "PIPE"),
    ],
    ids=lambda words: " ".join(words[:1] + words[-2:-1]),
)
def test_a_named_pipe_is_refused(vibe: Vibe, tmp_path: Path, words: tuple[str, ...]) -> None:
    """As a device is."""
    (tmp_path / "suite.toml").write_text(
        '[[subjects]]\nmodel = "scripted:echo"\n[[judges]]\nkind = "contains"\n'
        '[[cases]]\nname = "a"\nprompt = "a"\nexpected = "a"\n'
    )
    (tmp_path / "questions.jsonl").write_text('"a"\n')
    with writing(40) as (descriptor, written):
        path = f"/dev/fd/{descriptor}"

        outcome = vibe(*(path if each == "PIPE" else each for each in words))

        assert outcome.code != 0
        assert len(outcome.err.strip().splitlines()) == 1
        assert path in outcome.err
        assert "20000000" in outcome.err.replace(",", "")
        assert written[0] < 22 * MEGABYTE


def test_a_pipe_with_lines_or_media_may_be_larger(
    vibe: Vibe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "PIPE_BYTES", 25 * MEGABYTE)
    monkeypatch.setattr(media, "MEDIA_BYTES", 25 * MEGABYTE)
    for words in (("embed", "-f"), ("transcribe",)):
        with writing(60) as (descriptor, written):
            outcome = vibe(*words, f"/dev/fd/{descriptor}")

            assert outcome.code != 0
            assert "25,000,000 bytes" in outcome.err
            assert written[0] < 27 * MEGABYTE


@pytest.mark.parametrize(
    "words",
    [
        ("embed",),
        ("draw", "-o", "a.png"),
        ("draw", "a cat", "-i", "-", "-o", "a.png"),
        ("transcribe", "--strict", "-"),
        ("speak", "--strict", "-o", "a.mp3"),
        ("memory", "add", "user/a.md"),
        ("ask", "-m", "scripted:echo"),
        ("chat", "-m", "scripted:echo"),
        ("batch", "-", "-m", "scripted:echo", "--text"),
        ("credentials", "set", "openai"),
    ],
    ids=" ".join,
)
def test_standard_input_is_refused(
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: tuple[str, ...],
) -> None:
    """Whole, or its first line where each line is taken by itself."""
    for module, name in [
        (files, "PIPE_BYTES"),
        (pipes, "PIPE_BYTES"),
        (media, "MEDIA_BYTES"),
        (texts, "_PROMPT_BYTES"),
        (inputs, "_LINE_BYTES"),
        (console, "_LINE_CHARACTERS"),
    ]:
        monkeypatch.setattr(module, name, 2 * MEGABYTE)
    monkeypatch.setenv("VIBE_LLMS_LIMITS_ATTACHMENT_BYTES", str(2 * MEGABYTE))
    with writing(30) as (descriptor, written), os.fdopen(descriptor, "r") as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)

        code = run(words)

        told = capsys.readouterr()
        assert code != 0
        assert re.search("2000000|100000", told.err.replace(",", ""))
        assert len(told.err.strip().splitlines()) == 1
        assert written[0] < 4 * MEGABYTE


def test_a_configuration_that_is_too_large_is_not_changed(
    vibe: Vibe, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It could not be read afterwards."""
    large = home / "large.toml"
    large.write_bytes(b"#" * MEGABYTE + b"\n")
    monkeypatch.setenv("VIBE_LLMS_CONFIG", str(large))

    outcome = vibe("config", "set", "stream", "false")

    assert outcome.code != 0
    assert "1,000,000 bytes" in outcome.err
    assert large.stat().st_size == MEGABYTE + 1


@pytest.mark.parquet
def test_a_line_of_results_that_is_too_long_is_refused(
    vibe: Vibe, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "_LINE_BYTES", MEGABYTE)
    with writing(30) as (descriptor, written):
        outcome = vibe("batches", "convert", f"/dev/fd/{descriptor}", "a.parquet")

        assert outcome.code != 0
        assert "1,000,000 bytes" in outcome.err
        assert written[0] < 3 * MEGABYTE


def test_a_line_of_a_batch_that_is_too_long_is_named(
    vibe: Vibe, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lines before it are checked; one that is as long as allowed is read."""
    monkeypatch.setattr(inputs, "_LINE_BYTES", 11)
    questions = home / "questions.jsonl"
    questions.write_bytes(b'"12345678"\n"123456789"\n')
    outcome = vibe("batch", str(questions), "-m", "scripted:echo")
    assert outcome.code != 0
    assert f"{questions}:2: The line has more than 11 bytes." in outcome.err

    questions.write_bytes(b'"12345678"\n' * 2)
    assert vibe("batch", str(questions), "-m", "scripted:echo").code == 0

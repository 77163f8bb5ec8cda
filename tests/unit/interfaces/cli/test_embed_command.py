"""``vibe embed``: texts and lines, files for NumPy and programs, and mistakes."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from vibe_llms.interfaces.cli.group import produce_group
from vibe_llms.messages.vectors import PURPOSES

WORDS = ("--model", "scripted:words", "--dimensions", "4")


def run(*arguments: str, given: str | None = None) -> Result:
    """Runs ``vibe embed``."""
    return CliRunner().invoke(produce_group(), ["embed", *arguments], input=given)


def test_each_text_is_a_line_of_json_in_a_pipe() -> None:
    done = run(*WORDS, "red", "blue")

    assert done.exit_code == 0, done.output
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [len(row) for row in rows] == [4, 4]


def test_lines_of_standard_input_are_texts_and_blank_ones_are_skipped() -> None:
    done = run(*WORDS, "--json", given="red\n\nblue\n")

    told = json.loads(done.stdout)
    assert len(told["vectors"]) == 2
    assert (told["model"], told["dimensions"], told["input_tokens"]) == ("scripted:words", 4, 2)


def test_a_file_for_numpy_has_its_shape(tmp_path: Path) -> None:
    lines, output = tmp_path / "lines.txt", tmp_path / "lines.npy"
    lines.write_text("red\nblue\ngreen\n")

    assert run(*WORDS, "--file", str(lines), "--output", str(output)).exit_code == 0

    data = output.read_bytes()
    length = struct.unpack("<H", data[8:10])[0]
    assert data[:8] == b"\x93NUMPY\x01\x00"
    assert (10 + length) % 64 == 0
    header = eval(data[10 : 10 + length])  # as NumPy reads it
    assert header == {"descr": "<f4", "fortran_order": False, "shape": (3, 4)}
    assert len(data) == 10 + length + 3 * 4 * 4


def test_many_lines_show_progress_and_keep_their_order(tmp_path: Path) -> None:
    output = tmp_path / "vectors.jsonl"
    given = "".join(f"line {number}\n" for number in range(3000))

    done = run(*WORDS, "--output", str(output), given=given)

    assert done.exit_code == 0, done.output
    assert "Embedding" in done.stderr
    rows = [json.loads(line) for line in output.read_text().splitlines()]
    assert [row["text"] for row in rows] == given.splitlines()
    assert all(len(row["vector"]) == 4 for row in rows)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("--output", "vectors.csv", "hi"), ".npy"),
        (("--file", "missing.txt"), "missing.txt"),
        (("--file", "x", "hi"), "--file"),
        (("--model", "nobody:m", "hi"), "nobody"),
        (("--model", "anthropic:m", "hi"), "embedder"),
    ],
)
def test_mistakes_name_the_input(arguments: tuple[str, ...], word: str, tmp_path: Path) -> None:
    done = run(*arguments)

    assert done.exit_code != 0
    assert word in f"{done.output}{done.exception}"


def test_the_offered_purposes_are_those_that_a_request_knows() -> None:
    choice = run("--purpose", "fun", "text").output

    assert choice.split("not one of ")[1].rstrip(".\n") == ", ".join(map(repr, PURPOSES))


def test_an_encoding_that_is_not_utf8_is_told_with_its_place() -> None:
    done = CliRunner().invoke(produce_group(), ["embed", *WORDS], input=b"\xff\xfeh\x00i\x00")

    assert done.exit_code == 2
    assert "standard input" in done.output


def test_a_loss_is_told() -> None:
    done = run(*WORDS, "--purpose", "query", "hi")

    assert done.exit_code == 0
    assert "purpose" in done.stderr

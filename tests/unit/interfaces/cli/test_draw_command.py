"""``vibe draw``: files, pipes, edits, JSON and errors."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from vibe_llms.interfaces.cli.group import produce_group
from vibe_llms.testing.simulator import SynchronousSimulator
from vibe_llms.testing.simulator.behaviour import produce_png

MODEL = ("-m", "scripted:squares")


def run(*arguments: str, given: str | bytes | None = None) -> Result:
    """Runs ``vibe draw``."""
    return CliRunner().invoke(produce_group(), ["draw", *arguments], input=given)


def measure(data: bytes) -> tuple[int, int]:
    """Returns the size of a PNG."""
    assert data.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", data[16:24])
    return width, height


@pytest.fixture
def simulator(monkeypatch: pytest.MonkeyPatch) -> Iterator[SynchronousSimulator]:
    """Lets the environment lead OpenAI's provider to the simulator."""
    with SynchronousSimulator() as running:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{running.url}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "canary")
        yield running


def test_an_image_is_written_to_a_file(tmp_path: Path) -> None:
    path = tmp_path / "house.png"
    done = run("A red house", *MODEL, "-o", str(path), "--size", "20x10")

    assert done.exit_code == 0, done.output
    assert measure(path.read_bytes()) == (20, 10)
    assert done.stdout == ""


def test_several_images_are_numbered(tmp_path: Path) -> None:
    done = run("A red house", *MODEL, "-o", str(tmp_path / "house.png"), "-n", "2")

    assert done.exit_code == 0, done.output
    assert sorted(path.name for path in tmp_path.iterdir()) == ["house-1.png", "house-2.png"]


def test_in_a_pipe_prompt_and_image_are_the_streams() -> None:
    done = run(*MODEL, given="A red house\n")

    assert done.exit_code == 0, done.output
    assert measure(done.stdout_bytes) == (64, 64)


def test_a_program_reads_the_image_from_json() -> None:
    done = run("A red house", *MODEL, "--json")

    told = json.loads(done.stdout)
    assert (told["model"], told["input_tokens"]) == ("scripted:squares", 3)
    [image] = told["images"]
    assert image["mime_type"] == "image/png"
    assert measure(base64.b64decode(image["data"])) == (64, 64)


def test_the_suffix_asks_for_a_format_and_a_loss_is_told(tmp_path: Path) -> None:
    path = tmp_path / "house.webp"
    done = run("A red house", *MODEL, "-o", str(path))

    assert done.exit_code == 0
    assert "file_format" in done.stderr
    assert "house.webp contains image/png." in done.stderr


def test_an_image_is_edited(simulator: SynchronousSimulator, tmp_path: Path) -> None:
    source, target = tmp_path / "a.png", tmp_path / "b.jpg"
    source.write_bytes(produce_png(3, 4))
    done = run(
        "Make it red", "-m", "openai:gpt-image-2", "-i", str(source), "-o", str(target), "--json"
    )

    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["images"][0]["file"] == str(target)
    [sent] = simulator.requests
    assert sent.path == "/v1/images/edits"
    assert sent.body["output_format"] == "jpeg"
    assert sent.body["image"].data == source.read_bytes()


def test_the_image_to_edit_may_come_from_a_pipe(simulator: SynchronousSimulator) -> None:
    done = run("Red", "-m", "openai:gpt-image-2", "-i", "-", given=produce_png(3, 4))

    assert done.exit_code == 0, done.output
    assert simulator.requests[0].body["image"].data == produce_png(3, 4)


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ((" ",), "empty"),
        (("a", "-n", "2"), "--output"),
        (("a", "-i", __file__), "is not an image (text/"),
        (("a", "-i", "/nowhere"), "Cannot read /nowhere"),
        (("-i", "-"), "prompt as an argument"),
        (("a", "--json", "-o", "-"), "name a file"),
        (("a", "--size", "big"), "Invalid size 'big'"),
        (("a", "--quality", "high", "--strict"), "quality"),
    ],
)
def test_a_mistake_is_one_line(arguments: tuple[str, ...], word: str) -> None:
    done = run(*arguments, *MODEL)

    assert done.exit_code != 0
    assert word in done.output or word in str(done.exception)


def test_there_is_no_default_illustrator() -> None:
    done = run("a")

    assert done.exit_code != 0
    assert "illustrator" in str(done.exception)

"""``vibe speak`` and ``vibe transcribe``: files, pipes, JSON, subtitles and errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from vibe_llms.interfaces.cli.group import produce_group

SPEAKER = ("-m", "scripted:tones")
LISTENER = ("-m", "scripted:notes")
TEXT = "The bridge is closed."


def run(*arguments: str, given: str | bytes | None = None) -> Result:
    """Runs ``vibe``."""
    return CliRunner().invoke(produce_group(), arguments, input=given)


def test_speech_goes_through_a_pipe() -> None:
    spoken = run("speak", *SPEAKER, given=f"{TEXT}\n")
    heard = run("transcribe", *LISTENER, given=spoken.stdout_bytes)

    assert spoken.exit_code == 0, spoken.output
    assert spoken.stdout_bytes.startswith(b"RIFF")
    assert heard.stdout == f"{TEXT}\n"


def test_speech_goes_through_a_file(tmp_path: Path) -> None:
    path = tmp_path / "talk.wav"
    spoken = run("speak", TEXT, *SPEAKER, "-o", str(path))
    heard = run("transcribe", str(path), *LISTENER, "--json", "--timestamps", "word")

    assert spoken.exit_code == 0, spoken.output
    assert spoken.stderr == ""
    told = json.loads(heard.stdout)
    assert told["text"] == TEXT
    assert told["model"] == "scripted:notes"
    assert [word["text"] for word in told["words"]] == TEXT.split()


def test_a_program_reads_the_audio_from_json() -> None:
    told = json.loads(run("speak", TEXT, *SPEAKER, "--json").stdout)

    assert told["audio"]["mime_type"] == "audio/wav"
    assert told["audio"]["data"].startswith("UklGR")
    assert told["input_tokens"] == 4


@pytest.mark.parametrize(("form", "start"), [("srt", "1\n00:00:00,000"), ("vtt", "WEBVTT\n\n00:")])
def test_subtitles_are_written(form: str, start: str, tmp_path: Path) -> None:
    path, target = tmp_path / "talk.wav", tmp_path / f"talk.{form}"
    run("speak", TEXT, *SPEAKER, "-o", str(path))
    shown = run("transcribe", str(path), *LISTENER, "--format", form)
    written = run("transcribe", str(path), *LISTENER, "--format", form, "-o", str(target))

    assert shown.stdout.startswith(start)
    assert target.read_text() == shown.stdout
    assert written.stdout == ""


def test_a_suffix_chooses_the_format_and_another_type_is_told(tmp_path: Path) -> None:
    done = run("speak", TEXT, *SPEAKER, "-o", str(tmp_path / "talk.mp3"))

    assert "file_format" in done.stderr
    assert "talk.mp3 contains audio/wav." in done.stderr


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("speak", " ", *SPEAKER), "empty"),
        (("speak", TEXT, *SPEAKER, "--speed", "0"), "--speed"),
        (("speak", TEXT, *SPEAKER, "--voice", "x", "--strict"), "voice"),
        (("speak", TEXT, *SPEAKER, "--json", "-o", "-"), "--output"),
        (("transcribe", __file__, *LISTENER), "is not audio (text/"),
        (("transcribe", "/nowhere", *LISTENER), "Cannot read /nowhere"),
        (("speak", TEXT, "-m", "anthropic:claude"), "speaker"),
    ],
)
def test_a_mistake_is_one_line(arguments: tuple[str, ...], word: str) -> None:
    done = run(*arguments)

    assert done.exit_code != 0
    assert word in done.output or word in str(done.exception)

"""``vibe speak`` and ``vibe transcribe``: files, pipes, JSON, subtitles and errors."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
from pathlib import Path

import pyte
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


def test_samples_need_their_rate(tmp_path: Path) -> None:
    path = tmp_path / "talk.raw"
    run("speak", TEXT, *SPEAKER, "-o", str(tmp_path / "talk.wav"))
    samples = (tmp_path / "talk.wav").read_bytes()[44:]
    path.write_bytes(samples)

    for given in (("transcribe", str(path)), ("transcribe",)):
        heard = run(*given, *LISTENER, "--sample-rate", "24000", given=samples)
        assert heard.stdout == f"{TEXT}\n", heard.output
        assert "is not audio" in run(*given, *LISTENER, given=samples).output


@pytest.mark.slow
def test_a_pipe_that_stays_open_is_transcribed_while_it_is_written() -> None:
    arguments = [sys.executable, "-m", "vibe_llms", "transcribe", *LISTENER]
    program = subprocess.Popen(
        [*arguments, "--sample-rate", "24000"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with program:
        assert program.stdin is not None
        assert program.stdout is not None
        for text in ("The bridge is ", "closed."):
            samples = b"".join(bytes((0, byte ^ 0x80)) * 240 for byte in text.encode())
            program.stdin.write(samples)
            program.stdin.flush()
            if text.endswith(" "):
                # The last word may continue.
                assert program.stdout.read(11) == b"The bridge "
        program.stdin.close()
        assert program.stdout.read() == b"is closed.\n"
    assert program.returncode == 0


@pytest.mark.slow
def test_a_terminal_shows_text_that_may_still_change() -> None:
    ours, theirs = os.openpty()
    arguments = [sys.executable, "-m", "vibe_llms", "transcribe", *LISTENER]
    program = subprocess.Popen(
        [*arguments, "--sample-rate", "24000"],
        stdin=subprocess.PIPE,
        stdout=theirs,
        env={**os.environ, "TERM": "xterm"},
    )
    os.close(theirs)
    screen = pyte.Screen(80, 24)
    stream = pyte.ByteStream(screen)
    with program:
        assert program.stdin is not None
        program.stdin.write(b"".join(bytes((0, byte ^ 0x80)) * 240 for byte in b"The bri"))
        program.stdin.flush()
        while "The bri" not in screen.display[0]:  # the word is not complete
            assert select.select([ours], [], [], 60)[0]
            stream.feed(os.read(ours, 1000))
        program.stdin.write(b"".join(bytes((0, byte ^ 0x80)) * 240 for byte in b"dge."))
        program.stdin.close()
        with contextlib.suppress(OSError):  # the end
            while data := os.read(ours, 1000):
                stream.feed(data)
    os.close(ours)
    assert program.returncode == 0
    assert [line.strip() for line in screen.display[:2]] == ["The bridge.", ""]


@pytest.mark.slow
@pytest.mark.parametrize("form", ["text", "srt"])
def test_a_transcript_sends_no_commands_to_a_terminal(form: str, tmp_path: Path) -> None:
    path = tmp_path / "talk.wav"
    run("speak", "Closed \x1b[2J now.", *SPEAKER, "-o", str(path))
    ours, theirs = os.openpty()
    arguments = ["transcribe", str(path), *LISTENER, "--format", form]
    subprocess.run([sys.executable, "-m", "vibe_llms", *arguments], stdout=theirs, check=True)
    os.close(theirs)
    shown = b""
    with contextlib.suppress(OSError):  # the end
        while data := os.read(ours, 1000):
            shown += data
    os.close(ours)

    assert b"Closed" in shown
    assert b"\x1b" not in shown


@pytest.mark.slow
def test_a_text_is_spoken_while_it_is_written() -> None:
    arguments = [sys.executable, "-m", "vibe_llms", "speak", *SPEAKER, "--format", "pcm"]
    program = subprocess.Popen(
        arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    first, second = "The bridge is closed. ", "It is."
    with program:
        assert program.stdin is not None
        assert program.stdout is not None
        assert program.stderr is not None
        program.stdin.write(f"{first}{second[0]}".encode())
        program.stdin.flush()
        samples = program.stdout.read(len(first) * 480)
        program.stdin.write(second[1:].encode())
        program.stdin.close()
        samples += program.stdout.read()
        assert b"sentence by sentence" in program.stderr.read()
    heard = run("transcribe", *LISTENER, "--sample-rate", "24000", given=samples)
    assert heard.stdout == f"{first}{second}\n"


@pytest.mark.slow
@pytest.mark.parametrize("signal", [None, "strict"])
def test_an_error_does_not_wait_for_the_end_of_the_pipe(signal: str | None) -> None:
    """Only with --strict, the pipe is read to its end."""
    more = ["--strict"] if signal else []
    program = subprocess.Popen(
        [sys.executable, "-m", "vibe_llms", "transcribe", "-m", "anthropic:claude", *more],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert program.stdin is not None
    program.stdin.write(b"ID3" + b"x" * 100)
    program.stdin.flush()
    if signal:
        with pytest.raises(subprocess.TimeoutExpired):
            program.wait(3)
        program.stdin.close()
    assert program.wait(60) != 0
    assert program.stderr is not None
    assert b"transcriber" in program.stderr.read()
    for pipe in (program.stdin, program.stdout, program.stderr):
        assert pipe is not None
        pipe.close()

"""``vibe transcribe``: the words of audio."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import attrs
import click

from vibe_llms.interfaces.cli.access import load_application, warn_untrusted
from vibe_llms.interfaces.cli.media import read_bytes, wrap_medium
from vibe_llms.interfaces.cli.options import (
    MODEL,
    command,
    download_option,
    json_option,
    strict_option,
)
from vibe_llms.interfaces.cli.output import sanitize, write_json
from vibe_llms.interfaces.cli.texts import describe_call, report_result

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from vibe_llms.interfaces.cli.text_tail import TextTail
    from vibe_llms.messages.contents import AudioContent
    from vibe_llms.messages.transcripts import Transcript
    from vibe_llms.providers.piece_streams import PieceStream

_TIMED = ("srt", "vtt")


@command("transcribe")
@click.argument("path", required=False, metavar="[FILE]", type=click.Path(allow_dash=True))
@click.option("--output", "-o", type=click.Path(), help="Write a file.")
@click.option(
    "--model",
    "-m",
    type=MODEL,
    help="Transcriber, as provider:model; default: setting `transcriber`.",
)
@click.option("--language", help="Code of the language, such as de.")
@click.option("--prompt", help="Words that may occur.")
@click.option("--translate", is_flag=True, help="Translate into English.")
@click.option(
    "--timestamps", type=click.Choice(["segment", "word"]), help="Report times (default: none)."
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", *_TIMED]),
    default="text",
    help="Text (default), or subtitles.",
)
@click.option(
    "--sample-rate",
    type=click.IntRange(min=1),
    help="Samples per second of audio without a header.",
)
@strict_option
@json_option
@download_option
async def transcribe(path: str | None, **options: Any) -> None:
    """Write down the words of audio.

    FILE is the audio. Without FILE, or with -, the audio is read from standard input:

    \b
        vibe transcribe interview.mp3
        vibe transcribe film.mp4 --format srt -o film.srt
        arecord -f S16_LE -r 24000 | vibe transcribe -m openai:gpt-4o-transcribe

    The text is written as it arrives, if the vendor streams it. Audio from a
    pipe that stays open is sent while it is recorded, if the vendor supports
    that; a terminal also shows the text that may still change. With --strict,
    the pipe is read to its end first.
    """
    if path is None and sys.stdin.isatty():
        raise click.UsageError("The audio is missing. Name a file, or use a pipe.")
    rate = options["sample_rate"]
    audio = await _read_audio(path or "-", rate, waits=options["strict"])
    application = load_application(yes=options["yes"])
    warn_untrusted(application.configuration)
    from vibe_llms.instruments.transcribers import Transcriber
    from vibe_llms.messages.contents import AudioContent

    form, output = options["form"], options["output"]
    default_timestamps = "segment" if form in _TIMED else None
    timestamps: Any = options["timestamps"] or default_timestamps
    async with (
        application,
        Transcriber(
            options["model"] or "",
            application=application,
            language=options["language"],
            prompt=options["prompt"],
            translates=options["translate"],
            timestamps=timestamps,
            strict=options["strict"],
        ) as transcriber,
    ):
        is_shown = not (output or options["as_json"] or form in _TIMED)
        if isinstance(audio, AudioContent) and not is_shown:
            transcript = await transcriber.transcribe(audio)
        else:
            live_rate = None if isinstance(audio, AudioContent) else rate
            view = _produce_view() if is_shown and not isinstance(audio, AudioContent) else None
            async with transcriber.stream(
                audio, sample_rate=live_rate, interim=view is not None
            ) as stream:
                transcript = await _follow(stream, is_shown=is_shown, view=view)
    if output:
        from vibe_llms.foundation.files import write_file

        write_file(output, _encode(transcript, form))
    if options["as_json"]:
        write_json(_describe(transcript))
    elif form in _TIMED and not output:
        _write(_encode(transcript, form).decode())
    report_result(transcript, output or f"{len(transcript.text.split())} words")


async def _read_audio(
    path: str, rate: int | None, *, waits: bool
) -> AudioContent | AsyncIterator[bytes]:
    """Read a file, or a pipe; one that stays open is read while it is written.

    Args:
        rate: Samples per second of audio without a header; ``None`` for other audio.
        waits: Wait for the end of a pipe.

    Raises:
        click.UsageError: The file cannot be read, or is not audio.
    """
    from vibe_llms.foundation.wav import wrap_pcm
    from vibe_llms.interfaces.cli.pipes import read_pipe
    from vibe_llms.messages.contents import AudioContent

    data = await read_pipe(waits=waits) if path == "-" else read_bytes(path)
    if not isinstance(data, bytes):
        return data
    if rate is not None:
        return AudioContent(data=wrap_pcm(data, rate))
    audio = wrap_medium(data, path, AudioContent)
    assert isinstance(audio, AudioContent)
    return audio


def _produce_view() -> TextTail | None:
    """Return the view for text that may still change; ``None`` if standard output has none."""
    from vibe_llms.interfaces.cli.chat.tail import is_drawable

    if not is_drawable(sys.stdout):
        return None
    import shutil

    from vibe_llms.interfaces.cli.text_tail import TextTail

    return TextTail(sys.stdout, shutil.get_terminal_size)


async def _follow(
    stream: PieceStream[Transcript], *, is_shown: bool, view: TextTail | None
) -> Transcript:
    """Return the transcript; write the text to standard output as it arrives, if wanted."""
    if view is not None:
        return await _draw(stream, view)
    if is_shown:
        async for text in stream:
            _write(text)
        _write("\n")
    return await stream.result()


def _write(text: str) -> None:
    sys.stdout.write(sanitize(text) if sys.stdout.isatty() else text)
    sys.stdout.flush()


async def _draw(stream: PieceStream[Transcript], view: TextTail) -> Transcript:
    """Show the text on a terminal as it arrives, with the text that may still change."""
    try:
        async for text in stream:
            if isinstance(text, str):
                view.add(text)
            else:
                view.show(text.text)
    finally:
        view.finish()
    transcript = await stream.result()
    # Only the view asked for such texts, not the user.
    losses = [loss for loss in transcript.losses if loss.path != "interim"]
    return attrs.evolve(transcript, losses=losses)


def _encode(transcript: Transcript, file_format: str) -> bytes:
    from vibe_llms.dialects.transcripts.subtitles import list_parts, write_srt, write_vtt

    if file_format == "srt":
        return write_srt(list_parts(transcript))
    if file_format == "vtt":
        return write_vtt(list_parts(transcript))
    return f"{transcript.text}\n".encode()


def _describe(transcript: Transcript) -> dict[str, object]:
    return {
        **describe_call(transcript),
        "text": transcript.text,
        "language": transcript.language,
        "seconds": transcript.seconds,
        "segments": [attrs.asdict(each) for each in transcript.segments],
        "words": [attrs.asdict(each) for each in transcript.words],
    }

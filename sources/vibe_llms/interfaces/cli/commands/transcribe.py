"""``vibe transcribe``: the words of audio."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import attrs
import click

from vibe_llms.interfaces.cli.access import load_application, warn_untrusted
from vibe_llms.interfaces.cli.media import read_medium
from vibe_llms.interfaces.cli.options import (
    MODEL,
    command,
    download_option,
    json_option,
    strict_option,
)
from vibe_llms.interfaces.cli.output import write_json
from vibe_llms.interfaces.cli.texts import describe_call, report_result

if TYPE_CHECKING:
    from vibe_llms.instruments.transcribers import Transcriber
    from vibe_llms.messages.contents import AudioContent
    from vibe_llms.messages.transcripts import Transcript

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
@strict_option
@json_option
@download_option
async def transcribe(path: str | None, **options: Any) -> None:
    """Write down the words of audio.

    FILE is the audio. Without FILE, or with -, the audio is read from standard input:

    \b
        vibe transcribe interview.mp3
        vibe transcribe film.mp4 --format srt -o film.srt

    The text is written as it arrives, if the vendor streams it.
    """
    if path is None and sys.stdin.isatty():
        raise click.UsageError("The audio is missing. Name a file, or use a pipe.")
    from vibe_llms.messages.contents import AudioContent

    audio = read_medium(path or "-", AudioContent)
    assert isinstance(audio, AudioContent)
    application = load_application(yes=options["yes"])
    warn_untrusted(application.configuration)
    from vibe_llms.instruments.transcribers import Transcriber

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
        if output or options["as_json"] or form in _TIMED:
            transcript = await transcriber.transcribe(audio)
        else:
            transcript = await _pipe(transcriber, audio)
    if output:
        from vibe_llms.foundation.files import write_file

        write_file(output, _encode(transcript, form))
    if options["as_json"]:
        write_json(_describe(transcript))
    elif form in _TIMED and not output:
        sys.stdout.write(_encode(transcript, form).decode())
    report_result(transcript, output or f"{len(transcript.text.split())} words")


async def _pipe(transcriber: Transcriber, audio: AudioContent) -> Transcript:
    """Write the text to standard output as it arrives."""
    async with transcriber.stream(audio) as stream:
        async for text in stream:
            sys.stdout.write(text)
            sys.stdout.flush()
        sys.stdout.write("\n")
        return await stream.result()


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

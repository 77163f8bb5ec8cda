"""``vibe speak``: audio of a text."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from vibe_llms.interfaces.cli.access import load_application, warn_untrusted
from vibe_llms.interfaces.cli.media import choose_paths, write_media
from vibe_llms.interfaces.cli.options import (
    MODEL,
    command,
    download_option,
    json_option,
    strict_option,
)
from vibe_llms.interfaces.cli.output import write_json
from vibe_llms.interfaces.cli.texts import (
    decode_prompt,
    describe_call,
    gather_prompt,
    report_result,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from vibe_llms.messages.speeches import Speech
    from vibe_llms.providers.piece_streams import PieceStream

_FORMATS: Final = {
    ".aac": "aac",
    ".flac": "flac",
    ".mp3": "mp3",
    ".ogg": "opus",
    ".opus": "opus",
    ".pcm": "pcm",
    ".wav": "wav",
}
"""Formats by suffix."""


@command("speak")
@click.argument("text", required=False)
@click.option(
    "--output", "-o", type=click.Path(allow_dash=True), help="Output file; - for standard output."
)
@click.option(
    "--model", "-m", type=MODEL, help="Speaker, as provider:model; default: setting `speaker`."
)
@click.option("--voice", "-v", help="Name or id of a voice.")
@click.option("--format", "file_format", help="Format: mp3, wav, opus, flac, aac or pcm.")
@click.option(
    "--speed",
    type=click.FloatRange(min=0, min_open=True),
    help="Speed: 1 is normal (the default), 2 twice as fast.",
)
@click.option("--instructions", help="How to speak.")
@click.option("--language", help="Code of the language, such as de.")
@strict_option
@json_option
@download_option
async def speak(text: str | None, **options: Any) -> None:
    """Speak a text.

    TEXT is the text. Without TEXT, the text is read from standard input:

    \b
        vibe speak "Good morning." -o morning.mp3
        vibe speak --voice coral < story.txt | mpv -
        vibe ask "Tell me a story." | vibe speak | mpv -

    In a pipe, the audio is written as it arrives. A text from a pipe that stays
    open is spoken while it is written; with --strict, the pipe is read to its
    end first.
    """
    words = await _read_text(text, waits=options["strict"])
    output: str | None = options["output"]
    paths = choose_paths(output, 1, as_json=options["as_json"])
    application = load_application(yes=options["yes"])
    warn_untrusted(application.configuration)
    from vibe_llms.instruments.speakers import Speaker

    file_format = options["file_format"] or _FORMATS.get(Path(output or "").suffix.lower())
    names = ("voice", "speed", "instructions", "language", "strict")
    settings = {name: options[name] for name in names}
    async with (
        application,
        Speaker(
            options["model"] or "", application=application, file_format=file_format, **settings
        ) as speaker,
    ):
        if isinstance(words, str) and (paths or options["as_json"]):
            speech = await speaker.speak(words)
        else:
            async with speaker.stream(words) as stream:
                speech = await _follow(stream, is_piped=not (paths or options["as_json"]))
    if paths or options["as_json"]:
        shown = write_media([speech.audio], paths)
        if options["as_json"]:
            write_json({**describe_call(speech), "audio": shown[0]})
    report_result(speech, ", ".join(paths) or f"{len(speech.data):,} bytes")


async def _read_text(text: str | None, *, waits: bool) -> str | AsyncIterator[str]:
    """Return the text; of a pipe that stays open, its parts as they are written.

    Args:
        waits: Wait for the end of the pipe.

    Raises:
        click.UsageError: There is none, or it is blank or not UTF-8.
    """
    if text is not None or sys.stdin.isatty():
        return gather_prompt(text)
    from vibe_llms.interfaces.cli.pipes import decode, read_pipe

    data = await read_pipe(waits=waits)
    return decode_prompt(data) if isinstance(data, bytes) else decode(data)


async def _follow(stream: PieceStream[Speech], *, is_piped: bool) -> Speech:
    """Return the speech; write the audio to standard output as it arrives, if wanted."""
    if is_piped:
        sys.stdout.flush()
        target = sys.stdout.buffer
        async for data in stream:
            target.write(data)
            target.flush()
    return await stream.result()

"""Shared parts of the commands about texts: ``embed``, ``rank`` and ``moderate``."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import click

from vibe_llms.interfaces.cli.output import note, repair

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vibe_llms.messages.call_results import CallResult

_FILE_BYTES: Final = 1_000_000_000
_PROMPT_BYTES: Final = 20_000_000

file_option = click.option(
    "--file",
    "-f",
    "path",
    type=click.Path(allow_dash=True),
    help="Each line of a file is a text; - is standard input.",
)


def gather_texts(texts: Sequence[str], path: str | None) -> list[str]:
    """Return the texts of the arguments, or the lines of the file that are not blank.

    Raises:
        click.UsageError: There are both or neither, or the file cannot be read, is too large, or
            has no lines.
    """
    if texts and path is not None:
        raise click.UsageError("Pass texts or --file, not both.")
    if texts:
        return list(map(repair, texts))
    if path is None and sys.stdin.isatty():
        raise click.UsageError("The text is missing. Pass one, or --file.")
    from vibe_llms.foundation.encodings import explain_misencoding
    from vibe_llms.foundation.files import PIPE_BYTES, read_file
    from vibe_llms.interfaces.cli.pipes import read_input

    raw = b""
    try:
        if path in (None, "-"):
            raw = read_input(PIPE_BYTES)
        else:
            raw = read_file(path, _FILE_BYTES, pipe_bytes=PIPE_BYTES)
        lines = [line for line in raw.decode("utf-8-sig").splitlines() if line.strip()]
    except UnicodeDecodeError as error:
        raise click.UsageError(explain_misencoding(raw, _name(path))) from error
    except OSError as error:
        reason = error.strerror or error
        raise click.UsageError(f"Cannot read {path}: {reason}.") from error
    if not lines:
        raise click.UsageError(f"There are no lines in {_name(path)}.")
    return lines


def gather_prompt(prompt: str | None) -> str:
    """Return one text: the argument, or standard input.

    Raises:
        click.UsageError: There is none, or it is blank, too large, or not UTF-8.
    """
    if prompt is None:
        if sys.stdin.isatty():
            raise click.UsageError("The text is missing. Pass one, or use a pipe.")
        from vibe_llms.interfaces.cli.pipes import read_input

        return decode_prompt(read_input(_PROMPT_BYTES))
    return _ensure_prompt(prompt)


def decode_prompt(raw: bytes) -> str:
    """Return the text of standard input. Raises click.UsageError if it is blank or not UTF-8."""
    from vibe_llms.foundation.encodings import explain_misencoding

    try:
        return _ensure_prompt(raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise click.UsageError(explain_misencoding(raw, "standard input")) from error


def _ensure_prompt(prompt: str) -> str:
    text = repair(prompt).strip()
    if not text:
        raise click.UsageError("The text is empty.")
    return text


def _name(path: str | None) -> str:
    return "standard input" if path in (None, "-") else str(path)


def report_result(result: CallResult, summary: str) -> None:
    """Note losses on standard error, and on a terminal the summary with the usage."""
    for loss in result.losses:
        note(f"Loss: {loss}")
    if sys.stderr.isatty():
        tokens = None if result.usage is None else result.usage.total_input_tokens
        note(summary if tokens is None else f"{summary}, {tokens} tokens")


def describe_call(result: CallResult) -> dict[str, object]:
    """Return the fields that ``--json`` shows for every command: model, usage and losses."""
    usage = result.usage
    return {
        "model": f"{result.origin.provider}:{result.origin.model}",
        "input_tokens": None if usage is None else usage.total_input_tokens,
        "losses": [str(loss) for loss in result.losses],
    }

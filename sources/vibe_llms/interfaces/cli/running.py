"""Runs one command line and turns whatever ends it into an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

from vibe_llms.interfaces.cli.errors import ExitCode, report_error


def run(arguments: Sequence[str]) -> int:
    """Performs a command line; never raises, except with ``--debug``.

    Returns:
        The exit code, one of :class:`ExitCode`.
    """
    _prepare_streams()
    ours = list(arguments)[: list(arguments).index("--")] if "--" in arguments else arguments
    try:
        code = _perform(arguments)
        sys.stdout.flush()
        return code
    except BrokenPipeError:
        _silence_stdout()
        return ExitCode.PIPE_CLOSED
    except (KeyboardInterrupt, click.Abort):
        if "--debug" in ours:
            raise
        return ExitCode.INTERRUPTED
    except Exception as error:
        if "--debug" in ours and not isinstance(error, click.ClickException):
            raise
        return _report(error, as_json="--json" in ours)


def _perform(arguments: Sequence[str]) -> int:
    from vibe_llms.interfaces.cli.group import produce_group

    group = produce_group()
    instruction = os.environ.get("_VIBE_COMPLETE")
    if instruction:
        from click.shell_completion import shell_complete

        return shell_complete(group, {}, "vibe", "_VIBE_COMPLETE", instruction)
    try:
        with group.make_context("vibe", list(arguments)) as context:
            outcome = group.invoke(context)
    except click.exceptions.Exit as leaving:
        return leaving.exit_code
    return outcome if isinstance(outcome, int) else ExitCode.SUCCESS


def _report(error: Exception, *, as_json: bool) -> int:
    try:
        return report_error(error, as_json=as_json)
    except BrokenPipeError:
        _silence_stdout()
        return ExitCode.PIPE_CLOSED


def _prepare_streams() -> None:
    """Lets no character fail on its way out: what the terminal cannot show becomes ``?``."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")


def _silence_stdout() -> None:
    """Keeps the interpreter from complaining about a closed pipe when it flushes at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            os.dup2(nowhere, stream.fileno())
        except (OSError, ValueError):
            continue
    os.close(nowhere)

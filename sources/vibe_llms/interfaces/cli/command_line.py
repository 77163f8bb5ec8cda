"""Execute one command line and convert its outcome to an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from vibe_llms.interfaces.cli.errors import ExitCode, report_error
from vibe_llms.interfaces.cli.program import remember_arguments


def run(arguments: Sequence[str]) -> int:
    """Execute a command line; never raise, except with ``--debug``.

    Returns:
        The exit code, one of :class:`ExitCode`.
    """
    _prepare_streams()
    remember_arguments(arguments)
    # What follows `--` is an argument, even if it looks like an option.
    options = list(arguments)[: list(arguments).index("--")] if "--" in arguments else arguments
    try:
        code = _perform(arguments)
        sys.stdout.flush()  # now, because an error at interpreter exit cannot be handled
        return code
    except BrokenPipeError:
        _silence()
        return ExitCode.PIPE_CLOSED
    except (KeyboardInterrupt, click.Abort):
        if "--debug" in options:
            raise
        return ExitCode.INTERRUPTED
    except Exception as error:
        if "--debug" in options and not isinstance(error, click.ClickException):
            raise
        return _report(error, as_json="--json" in options)


def _perform(arguments: Sequence[str]) -> int:
    from vibe_llms.interfaces.cli.group import produce_group

    group = produce_group()
    instruction = os.environ.get("_VIBE_COMPLETE")
    if instruction:
        from click.shell_completion import add_completion_class, shell_complete

        from vibe_llms.interfaces.cli.completing import Bash, complete

        add_completion_class(Bash)
        return shell_complete(group, {"obj": complete}, "vibe", "_VIBE_COMPLETE", instruction)
    try:
        with group.make_context("vibe", list(arguments)) as context:
            outcome = group.invoke(context)
    except click.exceptions.Exit as request:
        return request.exit_code
    return outcome if isinstance(outcome, int) else ExitCode.SUCCESS


def _report(error: Exception, *, as_json: bool) -> int:
    try:
        code = report_error(error, as_json=as_json)
    except BrokenPipeError:
        _silence()
        return ExitCode.PIPE_CLOSED
    try:
        sys.stdout.flush()
    except OSError:
        _silence()
    return code


def _prepare_streams() -> None:
    """Prevent encoding errors: characters that the terminal cannot show become ``?``.

    Input that cannot be decoded is repaired later by :func:`repair`. Closed streams discard their
    output.
    """
    streams = {"stdin": ("r", "surrogateescape")} | dict.fromkeys(
        ("stdout", "stderr"), ("w", "replace")
    )
    for name, (mode, errors) in streams.items():
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115
        stream = getattr(sys, name)
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors=errors)


def _silence() -> None:
    """Discard further output, so that the interpreter reports no other error at exit."""
    null_device = os.open(os.devnull, os.O_WRONLY)
    for stream in (sys.stdout, sys.stderr):
        try:
            os.dup2(null_device, stream.fileno())
        except (OSError, ValueError):
            continue
    os.close(null_device)

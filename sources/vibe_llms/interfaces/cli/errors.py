"""Error messages for users, one line each, and exit codes."""

from __future__ import annotations

import enum
import re
import sys

import click


class ExitCode(enum.IntEnum):
    """Exit code of the process; :data:`MEANINGS` describes it."""

    SUCCESS = 0
    DEFECT = 1
    INCOMPLETE = 1  # the same number as DEFECT: the command finished, with partial failures
    USAGE = 2
    CONFIGURATION = 3
    NOT_FOUND = 4
    REQUEST = 5
    PROVIDER = 6
    STORE = 7
    LIMIT = 8
    CONSENT = 9
    INTERRUPTED = 130
    PIPE_CLOSED = 141


MEANINGS: dict[ExitCode, str] = {
    ExitCode.SUCCESS: "Success.",
    ExitCode.DEFECT: (
        "A bug in vibe; please report it with the output of --debug. For `batch` and "
        "`conformance`: some items failed. For `flow`: a tool failed, or the goal was not met."
    ),
    ExitCode.USAGE: "Invalid command line.",
    ExitCode.CONFIGURATION: "Invalid configuration, or a plugin or package is missing.",
    ExitCode.NOT_FOUND: "Unknown or ambiguous name of a conversation, model or run.",
    ExitCode.REQUEST: "The request is invalid for the model, or would lose something.",
    ExitCode.PROVIDER: "The model failed or is unreachable, or its weights are missing.",
    ExitCode.STORE: "Cannot read or write conversations or output, or they are damaged.",
    ExitCode.LIMIT: "A limit was reached.",
    ExitCode.CONSENT: (
        "A call awaits approval; or you declined, or there was no terminal to ask at."
    ),
    ExitCode.INTERRUPTED: "Interrupted (Ctrl-C).",
    ExitCode.PIPE_CLOSED: "The reader of the output closed it.",
}
"""The table of exit codes, as in the manual."""


def classify_error(error: BaseException) -> ExitCode:
    """Return the exit code for an error; the most specific class wins."""
    from vibe_llms import exceptions

    codes: dict[type[BaseException], ExitCode] = {
        exceptions.ConfigurationError: ExitCode.CONFIGURATION,
        exceptions.DependencyError: ExitCode.CONFIGURATION,
        exceptions.PluginError: ExitCode.CONFIGURATION,
        exceptions.TrustError: ExitCode.CONSENT,
        exceptions.UnknownNameError: ExitCode.NOT_FOUND,
        exceptions.UnknownConversationError: ExitCode.NOT_FOUND,
        exceptions.AmbiguousIdentityError: ExitCode.NOT_FOUND,
        exceptions.RequestError: ExitCode.REQUEST,
        exceptions.TranslationLossError: ExitCode.REQUEST,
        exceptions.CodecError: ExitCode.REQUEST,
        exceptions.GuardError: ExitCode.REQUEST,
        exceptions.LimitError: ExitCode.LIMIT,
        exceptions.WeightsError: ExitCode.PROVIDER,
        exceptions.TransportError: ExitCode.PROVIDER,
        exceptions.StreamTruncatedError: ExitCode.PROVIDER,
        exceptions.ProviderError: ExitCode.PROVIDER,
        exceptions.StoreError: ExitCode.STORE,
        exceptions.ConverseError: ExitCode.PROVIDER,
        OSError: ExitCode.STORE,
    }
    if isinstance(error, click.UsageError):
        return ExitCode.USAGE
    if isinstance(error, (KeyboardInterrupt, click.Abort)):
        return ExitCode.INTERRUPTED
    for cls in type(error).__mro__:  # most derived class first
        if cls in codes:
            return codes[cls]
    return ExitCode.USAGE if isinstance(error, click.ClickException) else ExitCode.DEFECT


def report_error(error: Exception, *, as_json: bool) -> ExitCode:
    """Report an error on standard error, in one line or as JSON; return the exit code."""
    code = classify_error(error)
    if as_json:
        sys.stderr.write(_encode(error) + "\n")
    else:
        from vibe_llms.interfaces.cli.output import mark_error

        for line in compose_lines(error):
            sys.stderr.write(f"{mark_error()} {line}\n")
    return code


def compose_lines(error: Exception) -> list[str]:
    """Compose the text for users: one line, or a line per finding in a configuration."""
    from vibe_llms.exceptions import ConfigurationError, ConverseError, end_sentence
    from vibe_llms.interfaces.cli.output import sanitize
    from vibe_llms.interfaces.cli.program import respell

    if isinstance(error, ConfigurationError) and error.findings:
        return [sanitize(respell(str(finding))) for finding in error.findings]
    if isinstance(error, click.UsageError):
        text = error.format_message() + _suggest_choice(error)
        context = error.ctx
        if context is not None:
            text = f"{end_sentence(text)} Try: {context.command_path} --help"
    elif isinstance(error, click.ClickException):
        text = error.format_message()
    elif isinstance(error, ConverseError):
        text = str(error)
    elif isinstance(error, OSError):
        from vibe_llms.foundation.files import advise

        problem = (
            f"Cannot read or write {error.filename}"
            if error.filename
            else "Cannot write standard output"
        )
        text = f"{problem}: {error.strerror or error}. {advise(error, is_named=True)}"
    else:
        text = f"This is a bug: {type(error).__name__}: {error} (add --debug for the traceback)"
    return [sanitize(respell(" ".join(text.split())))]


def _suggest_choice(error: click.UsageError) -> str:
    """Suggest the most similar choice of an option; click suggests only names of options."""
    from vibe_llms.foundation.suggestions import find_nearest

    kind = error.param.type if isinstance(error, click.BadParameter) and error.param else None
    match = re.match(r"'(.*)' is not one of ", str(error.message)) if kind else None
    if match is None or not isinstance(kind, click.Choice):
        return ""
    invalid_choice = match[1]
    nearest = find_nearest(invalid_choice, map(str, kind.choices))
    return f" Did you mean {nearest!r}?" if nearest else ""


def _encode(error: Exception) -> str:
    from vibe_llms.messages.codec.errors import encode_error

    if isinstance(error, click.ClickException):
        from vibe_llms.exceptions import RequestError

        error = RequestError(path="command line", detail=error.format_message())
    return encode_error(error).decode("utf-8")

"""Options and arguments shared by several commands, and their shell completion."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import click

if TYPE_CHECKING:
    from decimal import Decimal

    from click.shell_completion import CompletionItem

_Function = TypeVar("_Function", bound=Callable[..., Any])

Complete: TypeAlias = Callable[[str, str], list[tuple[str, str]]]
"""Function that lists the candidates of a kind that begin with a text, with descriptions."""


class _CompletedText(click.ParamType[str]):
    """Text parameter with shell completion by the :data:`Complete` of the context.

    Args:
        kind: The kind of the candidates: a key of ``completing.SURVEYS``.
        is_path: Whether the text may also be a path, which the shell completes.
    """

    def __init__(self, name: str, kind: str, *, is_path: bool = False) -> None:
        self.name = name
        self.kind = kind
        self._is_path = is_path

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        complete: Complete = ctx.obj
        # The functions read the rest of the line from click's current context.
        with ctx.scope(cleanup=False):
            candidates = complete(self.kind, incomplete)
        if self._is_path and not candidates:
            return [CompletionItem(incomplete, type="file")]  # the shell completes the path
        return [CompletionItem(word, help=text) for word, text in candidates]


APPROVER = _CompletedText("text", "approvers")
CONTROL = _CompletedText("text", "controls")
CONVERSATION = _CompletedText("id", "conversations")
ENSEMBLES = _CompletedText("text", "ensembles")
GATEWAY_KEY = _CompletedText("key", "gateway_keys")
EXPORTER = _CompletedText("text", "exporters")
IMPORTER = _CompletedText("text", "importers")
INVOCABLE = _CompletedText("text", "invocable")
INVOCABLES = _CompletedText("text", "invocables")
NOTE = _CompletedText("note", "notes")
MODEL = _CompletedText("model", "models")
PROVIDER = _CompletedText("provider", "providers")
PLUGIN = _CompletedText("text", "plugins")
ROLE = _CompletedText("text", "roles")
SERVER = _CompletedText("text", "servers", is_path=True)
SETTING = _CompletedText("setting", "settings")
SKILL = _CompletedText("text", "skills", is_path=True)
EXAMPLE = _CompletedText("text", "examples")
FLOW_RUN = _CompletedText("id", "flow_runs")
RUN = _CompletedText("id", "runs")


class _Dollars(click.ParamType["Decimal"]):
    """An amount of US dollars, such as ``2.50``.

    Args:
        allows_zero: Whether the amount may be 0.
    """

    name = "dollars"

    def __init__(self, *, allows_zero: bool = False) -> None:
        self._allows_zero = allows_zero

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Decimal:
        from decimal import Decimal, InvalidOperation

        try:
            amount = Decimal(value)
        except InvalidOperation:
            amount = Decimal(-1)
        if not amount.is_finite() or amount < 0 or (not amount and not self._allows_zero):
            self.fail(f"{value!r} is not an amount of dollars, such as 2.50.", param, ctx)
        return amount


DOLLARS = _Dollars()
CAP = _Dollars(allows_zero=True)


class _Number(click.FloatRange):
    """Number within bounds; rejects NaN, which click accepts."""

    name = "number"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        number: float = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value!r} is not a valid number.", param, ctx)
        return number


DAYS = _Number(min=0, max=36_500)
"""Days, up to a century: larger numbers would be before the first date that Python supports."""
GRACE = _Number(min=0, max=86_400)
"""Seconds of a grace period, up to a day."""


def refuse_empty(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
    """Reject an empty text, such as that of an unset variable in a script.

    For options that restrict something, an empty value would remove the restriction.

    Raises:
        BadParameter: The text, or one of several, is empty.
    """
    for text in value if isinstance(value, tuple) else (value,):
        if text is not None and not text.strip():
            raise click.BadParameter("The value is empty.", context, parameter)
    return value


runner_option = click.option(
    "--runner",
    required=True,
    metavar="URL",
    help="Shared database: sqlite:///FILE or postgresql://…",
)


class Command(click.Command):
    """Command with ``--debug``, which `command_line` finds at any position.

    The function of a command may be asynchronous: then it runs in a new event loop, and Ctrl-C
    cancels it.
    """

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        if inspect.iscoroutinefunction(settings.get("callback")):
            settings["callback"] = _block(settings["callback"])
        super().__init__(*arguments, **settings)
        self.params.append(
            click.Option(
                ["--debug"],
                is_flag=True,
                expose_value=False,
                help="Show the traceback of an error.",
            )
        )


def _block(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def perform(*arguments: Any, **options: Any) -> Any:
        from vibe_llms.interfaces.cli.interrupts import run

        return run(function(*arguments, **options))

    return perform


class Group(click.Group):
    """Command with subcommands, which suggests the nearest one for an unknown name.

    Args:
        default: The subcommand to execute if none is named.
        file_command: The subcommand to execute if a file, or an option of it, comes first.
        settings: Settings of click.
    """

    def __init__(self, *, default: str = "", file_command: str = "", **settings: Any) -> None:
        super().__init__(**settings)
        self._default = default
        self._file_command = file_command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # Not during completion, which completes the names of subcommands.
        if not args and self._default and not ctx.resilient_parsing:
            args = [self._default]
        if self._file_command and args and self._names_file(ctx, args[0]):
            args = [self._file_command, *args]
        return super().parse_args(ctx, args)

    def _names_file(self, ctx: click.Context, word: str) -> bool:
        """Return whether a word is a path or an option, and not a subcommand."""
        if word.startswith("-"):
            return not any(word in each.opts for each in self.get_params(ctx))
        from pathlib import Path  # only commands with files need it

        return word not in self.list_commands(ctx) and ("." in word or Path(word).is_file())

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        command = self.get_command(ctx, name)
        if command is None:
            from vibe_llms.interfaces.cli.synonyms import find_command

            if name.startswith("-"):
                ctx.fail(f"Unknown option {name}.")
            options = [each for param in self.get_params(ctx) for each in param.opts]
            suggestion = find_command(name, (*self.list_commands(ctx), *options))
            hint = f"; did you mean {suggestion!r}?" if suggestion else "."
            ctx.fail(f"Unknown command {name!r}{hint}")
        return name, command, args[1:]


def command(name: str, **settings: Any) -> Callable[[Callable[..., Any]], click.Command]:
    """Create a command from a function; its docstring is the help."""
    return click.command(name, cls=Command, **settings)


def optional_conversation_argument(function: _Function) -> _Function:
    """Add the argument that names a conversation; the newest by default."""
    argument = click.argument("identity", metavar="[ID]", type=CONVERSATION, required=False)
    return argument(function)


def continue_option(function: _Function) -> _Function:
    """Add ``--continue``: absent, empty for the newest conversation, or an id."""
    option = click.option(
        "--continue",
        "continued",
        type=CONVERSATION,
        is_flag=False,
        flag_value="",  # the value of the option without an id
        metavar="[ID]",
        help="Continue a conversation; without ID, the newest.",
    )
    return option(function)


def json_option(function: _Function) -> _Function:
    """Add ``--json``."""
    return click.option("--json", "as_json", is_flag=True, help="Write JSON, including errors.")(
        function
    )


def produce_limit_option(things: str, default: int = 20) -> Callable[[_Function], _Function]:
    """Return a decorator that adds ``--limit`` to a command that lists or searches.

    Args:
        things: The listed things, such as ``runs``.
    """
    return click.option(
        "--limit",
        "-n",
        default=default,
        show_default=True,
        type=click.IntRange(min=1),
        help=f"Maximum number of {things}.",
    )


def yes_option(function: _Function) -> _Function:
    """Add ``--yes`` to a command that asks before it changes or spends something."""
    return click.option("--yes", "-y", is_flag=True, help="Answer every question with yes.")(
        function
    )


def download_option(function: _Function) -> _Function:
    """Add ``--yes`` to a command that asks only before downloads and installs."""
    help_ = "Allow downloads and installs."
    return click.option("--yes", "-y", is_flag=True, help=help_)(function)


def consent_option(function: _Function) -> _Function:
    """Add ``--yes`` to a command with ``--allow``: it permits downloads, but approves no calls."""
    help_ = "Allow downloads and installs (tool calls: --allow)."
    return click.option("--yes", "-y", is_flag=True, help=help_)(function)


lenient_option = click.option(
    "--lenient",
    is_flag=True,
    default=None,
    help="Drop unsupported controls (default: fail); report them.",
)


window_option = click.option(
    "--window",
    type=click.Choice(["stop", "drop", "summarize", "vendor"]),
    help="If a conversation is too long: fail (default), or shorten it.",
)


cache_option = click.option(
    "--cache",
    metavar="LIFETIME",
    help='Cache the conversation at the vendor: "on", or "1h".',
)


PURPOSES = ("query", "passage", "similarity", "classification", "clustering")
"""The values of ``Purpose``, listed here because importing them would slow down the help."""


def model_option(default: str = "the configured one") -> Callable[[_Function], _Function]:
    """Return the option ``--model`` with a description of its default."""
    help_ = f"Model, as provider:model (default: {default})."
    return click.option("--model", "-m", type=MODEL, help=help_)


provider_option = click.option(
    "--provider", type=PROVIDER, help="Provider, to use its default model."
)
control_option = click.option(
    "--control",
    "-c",
    "controls",
    multiple=True,
    type=CONTROL,
    metavar="NAME=VALUE",
    help="Set a control, such as temperature=0.2. Repeatable.",
)
strict_option = click.option(
    "--strict", is_flag=True, help="Fail on unsupported options (default: omit and report)."
)


def model_options(function: _Function) -> _Function:
    """Add the options that choose a model, set its controls and consent to a download."""
    options = [
        model_option("the conversation's, or configured"),
        provider_option,
        click.option("--system", "-s", help="Instructions for the whole conversation."),
        control_option,
        click.option(
            "--stream/--no-stream", default=None, help="Show answers as they arrive (the default)."
        ),
        window_option,
        cache_option,
        strict_option,
        lenient_option,
    ]
    for option in reversed(options):  # the option that is applied last is the first in the help
        function = option(function)
    return consent_option(function)

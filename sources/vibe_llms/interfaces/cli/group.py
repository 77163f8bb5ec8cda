"""Names and one-line descriptions of all commands, without importing them."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from vibe_llms.interfaces.cli.options import Group

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


def _access_plugin_command(name: str) -> click.Command | None:
    """Return the plugins' command of this name; load the plugins."""
    if name.startswith("-"):  # known without loading a plugin
        return None
    from vibe_llms.interfaces.cli.access import load_configuration
    from vibe_llms.plugins.manager import PluginManager
    from vibe_llms.plugins.specification.users import CommandSpecification

    manager = PluginManager(configuration=load_configuration())
    for specification in manager.survey_pieces(CommandSpecification):
        if specification.name == name:
            return _produce_plugin_command(name, specification.summary, specification.reference)
    return None


def _produce_plugin_command(name: str, summary: str, reference: str) -> click.Command:
    @click.command(
        name,
        help=summary,
        add_help_option=False,  # the plugin parses all its arguments, including this one
        context_settings={"ignore_unknown_options": True},
    )
    @click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
    def perform(arguments: tuple[str, ...]) -> int:
        return int(_access_function(name, reference)(list(arguments)) or 0)

    return perform


def _access_function(name: str, reference: str) -> Callable[[list[str]], int | None]:
    from vibe_llms.exceptions import PluginError

    module, _, attribute = reference.partition(":")
    try:
        function: Callable[[list[str]], int | None] = getattr(
            importlib.import_module(module), attribute
        )
    except (Exception, SystemExit) as error:  # a module may exit the process on import
        from vibe_llms.plugins.loading import describe_error

        raise PluginError(
            plugin=name,
            detail=f"The command {name!r} ({reference}) cannot be loaded: {describe_error(error)}.",
        ) from error
    return function


COMMANDS: dict[str, dict[str, tuple[str, str]]] = {
    "Converse": {
        "ask": ("ask:ask", "Ask one question and print the answer."),
        "chat": ("chat:chat", "Converse in the terminal."),
        "batch": ("batch:batch", "Ask a model about each line of a file, many at once."),
        "batches": ("", "Watch, stop and resume batches that workers process."),
        "flow": ("", "Run a task whose program is a Mermaid diagram."),
    },
    "Conversations": {
        "list": ("listing:list_", "List conversations, newest first."),
        "show": ("showing:show", "Show the messages of a conversation."),
        "search": ("searching:search", "Search all conversations for words."),
        "export": ("exporting:export", "Write a conversation as Markdown, JSON or HTML."),
        "import": ("importing:import_", "Import conversations from ChatGPT, Claude, llm or vibe."),
        "fork": ("forking:fork", "Start a conversation that shares another's history."),
        "rename": ("renaming:rename", "Rename a conversation."),
        "delete": ("deleting:delete", "Delete conversations; their forks keep what they share."),
        "verify": ("proving:verify", "Verify every stored line and content hash."),
        "gc": ("proving:gc", "Remove content that no conversation uses."),
        "store": ("", "Copy a store, compact logs, purge old runs."),
    },
    "Runs": {
        "runs": ("", "Watch, approve, message and stop runs."),
        "top": ("top:top", "Watch runs on a full-screen display."),
        "view": ("view:view", "Open runs and conversations in a browser."),
        "worker": ("worker:worker", "Process queued runs and batches."),
    },
    "Serve": {
        "serve": ("", "Serve over HTTP: gateway (models), agents (runs), tools (MCP)."),
    },
    "Set-up": {
        "providers": ("providers:providers", "List providers and where they come from."),
        "models": ("models:models", "List, explain and download models."),
        "tools": ("tools:tools", "List, explain and call the tools that models may use."),
        "config": ("config:config", "Show, check and change the configuration."),
        "credentials": ("credentials:credentials", "Store the API keys of providers."),
        "keys": ("keys:keys", "Issue keys for your gateway, and show what they spend."),
        "plugins": ("plugins:plugins", "List, add, remove and create plugins."),
        "trust": ("trust:trust", "Trust a project folder (its configuration may load code)."),
        "conformance": (
            "conformance:conformance",
            "Test a plugin's provider against the contract.",
        ),
        "completion": ("completion:completion", "Print the shell completion script."),
    },
}
"""Maps sections to commands: module (empty if it has subcommands) and description."""

BELOW: dict[str, dict[str, tuple[str, str]]] = {
    "batches": {
        "list": ("listing:list_", "List batches, newest first."),
        "watch": ("watching:watch", "Follow a batch until it stops."),
        "results": ("watching:results", "Write the results that a batch has so far."),
        "stop": ("stopping:stop", "Stop a batch; requests under way still finish."),
        "resume": ("stopping:resume", "Resume a stopped or finished batch."),
        "delete": ("stopping:delete", "Delete a batch with its results."),
        "convert": ("watching:convert", "Convert a file of lines to a Parquet table."),
    },
    "flow": {
        "new": ("beginning:new", "Write an example task to start from."),
        "check": ("checking:check", "Find mistakes in tasks, without asking a model."),
        "run": ("running:run", "Run a task."),
        "show": (
            "showing:show",
            "Show a run's path, its cost, and whether it met its goal.",
        ),
        "resume": ("resuming:resume", "Resume a run that stopped before its end."),
        "fork": ("forking:fork", "Run again from a node on, with other variables."),
        "diff": ("comparing:diff", "Show how two versions of a task differ."),
    },
    "runs": {
        "list": ("listing:list_", "List runs, most recently active first."),
        "show": ("showing:show", "Show a run's state, and the calls that await approval."),
        "watch": ("watching:watch", "Follow the events of a run."),
        "approve": ("approving:approve", "Allow, deny or edit a call that awaits approval."),
        "send": ("saying:send", "Send a message to a run; the model reads it next."),
        "stop": ("saying:stop", "Stop a run; what it has received stays."),
        "detach": ("saying:detach", "Let a run continue after its watchers disconnect."),
        "resume": ("resuming:resume", "Resume a run in this process."),
        "fork": ("forking:fork", "Start a conversation that shares a run's history."),
        "replay": ("replaying:replay", "Replay a recorded run, without a model."),
        "diff": ("comparing:diff", "Find the first step at which two runs differ."),
        "bisect": ("comparing:bisect", "Find the version that changed a run."),
        "keep": ("replaying:keep", "Write a test that replays a run."),
        "delete": ("deleting:delete", "Delete a run with its conversation."),
    },
    "serve": {
        "gateway": ("gateway:gateway", "Serve any model to clients of any protocol."),
        "agents": ("agents:agents", "Run agents in the background; clients may disconnect."),
        "tools": ("tools:tools", "Serve tools to other programs over MCP."),
    },
    "store": {
        "copy": ("copying:copy", "Copy a store into another, and verify the copy."),
        "compact": ("compacting:compact", "Shorten the logs of runs that ended long ago."),
        "purge": ("purging:purge", "Delete finished runs older than a number of days."),
    },
}
"""Maps commands to their subcommands: each in a module of the folder of that name."""

_HELPS = {
    "batches": (
        "Batches submitted with `vibe batch --runner URL` and processed by `vibe worker`.\n\n"
        "Name a batch by its id or the first letters of it.\n"
    ),
    "flow": (
        "Run tasks: a goal, a model, prompts, and a Mermaid diagram as the program.\n\n"
        "`vibe flow new` lists examples and writes one to start from.\n"
    ),
    "runs": (
        "Watch and control runs on this machine, or on an agents daemon with --address.\n\n"
        "A run is a conversation with tools, or a flow. Its id is that of its conversation; the "
        "first\n"
        "letters are enough if no other run's id begins with them.\n"
    ),
    "serve": "Serve models, runs or tools over HTTP, until Ctrl-C.",
    "store": (
        "Manage the store of conversations, runs and content.\n\n"
        "Name a store as in the setting `store`: `directory` for your own files, the URL of a "
        "PostgreSQL\n"
        "database, or a plugin's store. A path names another directory.\n"
    ),
}
"""Help texts of commands with subcommands."""

_HELP = """Converse with any language model from your terminal.

Begin with a small model that runs on this machine, without an account or a key:

\b
    vibe chat --yes

With a vendor's key in the environment, name a model:

\b
    vibe ask --model anthropic:claude-sonnet-5-5 "What is a queue?"

Conversations are kept; see `vibe list`.
"""

_EPILOG = "Run `vibe COMMAND --help` for the options of a command."


class LazyGroup(Group):
    """Group that imports a command when it is executed, never for help texts.

    Args:
        home: The package of the commands.
        sections: Maps sections of the help to commands, each with its module and description.
        find_other: Returns another command by name, or ``None``.
    """

    def __init__(
        self,
        *,
        home: str,
        sections: Mapping[str, Mapping[str, tuple[str, str]]],
        find_other: Callable[[str], click.Command | None] = lambda name: None,
        **settings: Any,
    ) -> None:
        super().__init__(**settings)
        self._home = home
        self._sections = sections
        self._find_other = find_other
        self._found = {name: entry for each in sections.values() for name, entry in each.items()}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._found)  # listing plugins' commands would load them

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._found:
            return self._find_other(cmd_name)
        module, _, attribute = self._found[cmd_name][0].partition(":")
        if not module:
            return _produce_subgroup(cmd_name)
        command = getattr(importlib.import_module(f"{self._home}.{module}"), attribute)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for section, commands in self._sections.items():
            with formatter.section(section):
                formatter.write_dl([(name, text) for name, (_, text) in commands.items()])

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        items = [
            CompletionItem(name, help=text)
            for name, (_, text) in self._found.items()
            if name.startswith(incomplete)
        ]
        return items if not incomplete.startswith("-") else super().shell_complete(ctx, incomplete)


def produce_group() -> LazyGroup:
    """Build the command ``vibe``."""
    return LazyGroup(
        name="vibe",
        home="vibe_llms.interfaces.cli.commands",
        sections=COMMANDS,
        find_other=_access_plugin_command,
        help=_HELP,
        epilog=_EPILOG,
        callback=_show_help,
        invoke_without_command=True,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
        params=[
            click.Option(["--version", "-V"], is_flag=True, help="Show the version and exit."),
            click.Option(["--debug"], is_flag=True, help="Show the traceback of an error."),
        ],
    )


def _produce_subgroup(name: str) -> LazyGroup:
    """Build a command with subcommands."""
    return LazyGroup(
        name=name,
        home=f"vibe_llms.interfaces.cli.commands.{name}",
        sections={"Commands": BELOW[name]},
        help=_HELPS[name],
        callback=_show_help,
        invoke_without_command=True,
    )


def _show_help(version: bool = False, debug: bool = False) -> None:
    context = click.get_current_context()
    if version:
        from vibe_llms.foundation.version import __version__

        click.echo(f"vibe-llms {__version__}")
        context.exit()
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
        context.exit()

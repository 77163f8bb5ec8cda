"""All commands by name, with one line about each, without importing any of them."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click

from vibe_llms.interfaces.cli.options import Group

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


def _access_plugin_command(name: str) -> click.Command | None:
    """Returns the command of this name that a plugin has; loads the plugins."""
    if name.startswith("-"):  # no plugin need be loaded to know that
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
        add_help_option=False,  # the plugin reads all of its arguments, this one too
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
    except (Exception, SystemExit) as error:  # a module may end the process when it is imported
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
        "batch": ("batch:batch", "Ask a model for each line of a file, many at once."),
        "batches": ("", "Follow batches that workers perform, and stop them."),
        "flow": ("", "Run a task whose program is a Mermaid diagram."),
    },
    "Conversations": {
        "list": ("listing:list_", "List conversations, the latest first."),
        "show": ("showing:show", "Show what was said in a conversation."),
        "search": ("searching:search", "Search for words in all conversations."),
        "export": ("exporting:export", "Write a conversation as Markdown, JSON or HTML."),
        "import": ("importing:import_", "Bring in conversations of ChatGPT, Claude, llm or here."),
        "fork": ("forking:fork", "Begin a conversation that shares another's history."),
        "rename": ("renaming:rename", "Give a conversation a name."),
        "delete": ("deleting:delete", "Delete conversations; their forks keep what they need."),
        "verify": ("proving:verify", "Prove every line and every content hash."),
        "gc": ("proving:gc", "Remove content that no conversation needs."),
        "store": ("", "Copy all that is kept elsewhere, and remove old runs."),
    },
    "Runs": {
        "runs": ("", "Watch what runs, answer what waits, and stop it."),
        "top": ("top:top", "Watch runs on a screen."),
        "view": ("view:view", "Look at runs and conversations with a browser."),
        "worker": ("worker:worker", "Perform runs that others have asked for."),
    },
    "Serve": {
        "serve": ("", "Serve over HTTP: gateway (models), agents (runs), tools (MCP)."),
    },
    "Set-up": {
        "providers": ("providers:providers", "List providers and where they come from."),
        "models": ("models:models", "List, explain and fetch models."),
        "tools": ("tools:tools", "List, explain and call what models may invoke."),
        "config": ("config:config", "Show, check, change and locate the configuration."),
        "credentials": ("credentials:credentials", "Keep the keys of providers."),
        "keys": ("keys:keys", "Give out keys of your gateway, and see what they spend."),
        "plugins": ("plugins:plugins", "List, add, remove and begin plugins."),
        "trust": ("trust:trust", "Let a project folder's configuration name code."),
        "conformance": ("conformance:conformance", "Try a plugin's provider against the contract."),
        "completion": ("completion:completion", "Print the shell's completion script."),
    },
}
"""From sections to commands: where each is, nowhere if it has others, and one line about it."""

BELOW: dict[str, dict[str, tuple[str, str]]] = {
    "batches": {
        "list": ("listing:list_", "List batches, the latest first."),
        "watch": ("watching:watch", "Follow a batch to its end."),
        "results": ("watching:results", "Write what there is of a batch."),
        "stop": ("stopping:stop", "Let nothing more of a batch be asked."),
        "resume": ("stopping:resume", "Let a batch go on that was stopped, or has ended."),
        "delete": ("stopping:delete", "Remove a batch with its results."),
        "convert": ("watching:convert", "Make a table of Parquet of lines."),
    },
    "flow": {
        "new": ("beginning:new", "Write an example, to begin a task of your own from."),
        "check": ("checking:check", "Find all that is wrong with tasks, before it costs a cent."),
        "run": ("running:run", "Run a task."),
        "show": (
            "showing:show",
            "Show where a run went, what it took, and whether it met its goal.",
        ),
        "resume": ("resuming:resume", "Go on with a run that came to rest before its end."),
        "fork": ("forking:fork", "Run anew from a node on, with other variables."),
        "diff": ("comparing:diff", "Show what distinguishes two versions of a task."),
    },
    "runs": {
        "list": ("listing:list_", "List runs, the one in which something happened last first."),
        "show": ("showing:show", "Show where a run stands, and what waits for an approval."),
        "watch": ("watching:watch", "Follow what happens in a run, from any event on."),
        "approve": ("approving:approve", "Allow, refuse or change a call that waits."),
        "send": ("saying:send", "Say something to a run; the model hears it at its next turn."),
        "stop": ("saying:stop", "End a run where it is; what has arrived stays."),
        "detach": ("saying:detach", "Let a run that was begun attached go on without watchers."),
        "resume": ("resuming:resume", "Go on with a run here."),
        "fork": ("forking:fork", "Begin a conversation that shares the history of a run."),
        "replay": ("replaying:replay", "Walk through a run as it was, without a model."),
        "diff": ("comparing:diff", "Name the first step in which two runs differ."),
        "bisect": ("comparing:bisect", "Find which of several versions changed a run."),
        "keep": ("replaying:keep", "Make a test of a run, which replays it."),
        "delete": ("deleting:delete", "Remove a run, and what was said in it."),
    },
    "serve": {
        "gateway": ("gateway:gateway", "Serve any model to clients of any protocol."),
        "agents": ("agents:agents", "Run agents in the background; clients may disconnect."),
        "tools": ("tools:tools", "Serve tools to other programs over MCP."),
    },
    "store": {
        "copy": ("copying:copy", "Copy a store into another, and prove that nothing was lost."),
        "compact": ("compacting:compact", "Make the logs of runs that ended long ago shorter."),
        "purge": ("purging:purge", "Remove runs that are over for so many days."),
    },
}
"""From commands that have others to these: each in a module of the folder of that name."""

_HELPS = {
    "batches": """\
Batches that `vibe batch --runner URL` has handed over, and that `vibe worker` performs.

A batch is named by its id, of which the first letters are enough.
""",
    "flow": """\
Run tasks: a goal, a model, prompts, and a Mermaid diagram which is the program.

`vibe flow new` lists examples, and writes one to begin from.
""",
    "runs": """\
See what runs on this machine, or with --address at an agents daemon, and speak to it.

A run is a conversation that acts, or a flow. Its id is that of its conversation, and may be
shortened, as long as only one begins so.
""",
    "serve": "Serve models, runs or tools over HTTP, until Ctrl-C.",
    "store": """\
Move the place in which conversations, runs and content are kept.

A store is named as the setting `store` names it: `directory` for the files of this user, the
URL of a database of PostgreSQL, or what a plugin has. A path is that of another directory.
""",
}
"""What those say of themselves."""

_HELP = """Converse with any language model from your terminal.

Begin with a small model that runs on this machine, without an account or a key:

\b
    vibe chat --yes

With a vendor's key in the environment, name a model:

\b
    vibe ask --model anthropic:claude-sonnet-5-5 "What is a queue?"

Conversations are kept; see `vibe list`.
"""

_EPILOG = "Each command has its own --help."


class LazyGroup(Group):
    """A group that imports a command when it is performed, and help texts never.

    Args:
        home: The package of the commands.
        sections: From sections of the help to commands: where each is, and one line about it.
        find_other: Returns a command of another name, if there is one.
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
        return list(self._found)  # plugins' would have to be loaded to be listed

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
    """Makes the command ``vibe``."""
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
    """Makes a command that has others."""
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

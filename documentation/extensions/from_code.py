"""Directives whose content is read from the code, so that a page cannot fall behind it.

``command-line``, ``exit-codes``, ``public-names``, ``settings`` and ``slash-commands`` take no
arguments.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import click
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective


class Written(SphinxDirective):
    """A directive that stands for the reStructuredText which a function writes."""

    write: ClassVar[Callable[[], Iterator[str]]]

    def run(self) -> list[nodes.Node]:
        text = "\n".join(type(self).write())
        return self.parse_text_to_nodes(text, allow_section_headings=True)


def write_table(*headings: str, rows: list[tuple[str, ...]]) -> Iterator[str]:
    """Writes a table of one line a cell."""
    yield from ("", ".. list-table::", "   :header-rows: 1", "   :widths: auto", "")
    for row in [headings, *rows]:
        for position, cell in enumerate(row):
            yield f"   {'* -' if position == 0 else '  -'} {cell}"
    yield ""


def write_exit_codes() -> Iterator[str]:
    """Writes the table of exit codes."""
    from vibe_llms.interfaces.cli.errors import MEANINGS

    rows = [(str(int(code)), meaning) for code, meaning in MEANINGS.items()]
    yield from write_table("code", "meaning", rows=rows)


def write_slash_commands() -> Iterator[str]:
    """Writes the table of slash commands in a chat, and the keys."""
    from vibe_llms.interfaces.cli.chat.commands import COMMANDS, KEYS

    rows = [
        (f"``{f'{each.name} {each.argument}'.strip()}``", each.summary)
        for each in COMMANDS.values()
    ]
    yield from write_table("command", "what it does", rows=rows)
    yield from (KEYS, "")


def write_settings() -> Iterator[str]:
    """Writes the table of settings and that of limits, with what ships as their values."""
    import tomli

    from vibe_llms.configuration.definitions import SETTINGS
    from vibe_llms.resources import access_data

    rows = [
        (f"`{each.name}`", f"`{each.variable}`", each.summary, each.kind.words)
        for each in SETTINGS.values()
    ]
    yield from write_table("setting", "variable", "what it decides", "a value is", rows=rows)
    defaults = tomli.loads(access_data("configuration", "defaults.toml").read_text("utf-8"))
    limits = [(f"`limits.{name}`", f"{value:,}") for name, value in defaults["limits"].items()]
    yield from write_table("limit", "unless you say otherwise", rows=limits)


def write_public_names() -> Iterator[str]:
    """Writes the table of what ``vibe_llms`` offers, with the first line about each."""
    package = importlib.import_module("vibe_llms")
    rows = []
    for name in package.__all__:
        value = getattr(package, name)
        first = (inspect.getdoc(value) or "").partition("\n")[0]
        if inspect.isclass(value) or inspect.isroutine(value):
            rows.append((f"`{name}`", first))
        else:
            rows.append((f"`{name}`", "The mark of a plugin's hooks."))
    yield from write_table("name", "what it is", rows=rows)


def write_command_line() -> Iterator[str]:
    """Writes a section for each command, by the sections of ``vibe --help``."""
    from vibe_llms.interfaces.cli.group import COMMANDS, produce_group

    group = produce_group()
    context = click.Context(group, info_name="vibe")
    for section, names in COMMANDS.items():
        yield from (section, "-" * len(section), "")
        for name in names:
            command = group.get_command(context, name)
            assert command is not None
            yield from write_command(command, click.Context(command, context, info_name=name))


def write_command(command: click.Command, context: click.Context) -> Iterator[str]:
    """Writes what ``--help`` of a command and of those below it prints."""
    path = context.command_path
    yield from (f"``{path}``", "~" * (len(path) + 4), "", ".. code-block:: text", "")
    context.max_content_width = 78
    context.terminal_width = 78
    yield from (f"   {line}".rstrip() for line in command.get_help(context).splitlines())
    yield ""
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            below = command.get_command(context, name)
            assert below is not None
            yield from write_command(below, click.Context(below, context, info_name=name))


WRITERS: dict[str, Callable[[], Iterator[str]]] = {
    "command-line": write_command_line,
    "exit-codes": write_exit_codes,
    "public-names": write_public_names,
    "settings": write_settings,
    "slash-commands": write_slash_commands,
}


def setup(app: Sphinx) -> dict[str, Any]:
    """Registers the directives."""
    for name, write in WRITERS.items():
        app.add_directive(name, type("Written", (Written,), {"write": staticmethod(write)}))
    return {"parallel_read_safe": True}

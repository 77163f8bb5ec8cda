"""Directives that generate tables from the code, so that pages stay up to date.

Only ``field-meanings`` takes an argument, a class.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar

import click
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective


class Written(SphinxDirective):
    """Directive that inserts the reStructuredText written by a function."""

    write: ClassVar[Callable[..., Iterator[str]]]
    optional_arguments = 1

    def run(self) -> list[nodes.Node]:
        text = "\n".join(type(self).write(*self.arguments))
        return self.parse_text_to_nodes(text, allow_section_headings=True)


def write_table(*headings: str, rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    """Write a table with one line per cell."""
    yield from ("", ".. list-table::", "   :header-rows: 1", "   :widths: auto", "")
    for row in [headings, *rows]:
        for position, cell in enumerate(row):
            yield f"   {'* -' if position == 0 else '  -'} {cell}"
    yield ""


def write_exit_codes() -> Iterator[str]:
    """Write the table of exit codes."""
    from vibe_llms.interfaces.cli.errors import MEANINGS

    rows = [(str(int(code)), meaning) for code, meaning in MEANINGS.items()]
    yield from write_table("code", "meaning", rows=rows)


def write_slash_commands() -> Iterator[str]:
    """Write the table of slash commands and keys of a chat."""
    from vibe_llms.interfaces.cli.chat.commands import COMMANDS, KEYS

    rows = [
        (f"``{f'{each.name} {each.argument}'.strip()}``", each.summary)
        for each in COMMANDS.values()
    ]
    yield from write_table("command", "what it does", rows=rows)
    yield from (KEYS, "")


def write_engine_table() -> Iterator[str]:
    """Write the table of the engine's decisions."""
    from vibe_llms.engine.table import TABLE

    rows = [
        (str(number), f"{row.situation}", f"**{row.state.upper()}**", row.note)
        for number, row in enumerate(TABLE, 1)
    ]
    yield from write_table("", "when …", "then", "and", rows=rows)


def write_settings() -> Iterator[str]:
    """Write the tables of settings and of limits, with their defaults."""
    import tomli

    from vibe_llms.configuration.definitions import SETTINGS
    from vibe_llms.foundation.package_data import access_data

    rows = [
        (f"`{each.name}`", f"`{each.variable}`", each.summary, each.kind.words)
        for each in SETTINGS.values()
    ]
    yield from write_table("setting", "variable", "meaning", "value", rows=rows)
    defaults = tomli.loads(access_data("configuration", "defaults.toml").read_text("utf-8"))
    limits = [(f"`limits.{name}`", f"{value:,}") for name, value in defaults["limits"].items()]
    yield from write_table("limit", "default", rows=limits)


def write_public_names() -> Iterator[str]:
    """Write the table of the names in ``vibe_llms``, with the first line of each docstring."""
    package = importlib.import_module("vibe_llms")
    rows = []
    for name in package.__all__:
        value = getattr(package, name)
        first = (inspect.getdoc(value) or "").partition("\n")[0]
        if inspect.isclass(value) or inspect.isroutine(value):
            rows.append((f"`{name}`", first))
        else:
            rows.append((f"`{name}`", "Decorator that marks the hooks of a plugin."))
    yield from write_table("name", "what it is", rows=rows)


def write_command_line() -> Iterator[str]:
    """Write a section for each command, by the sections of ``vibe --help``."""
    from vibe_llms.interfaces.cli.command_table import COMMANDS
    from vibe_llms.interfaces.cli.group import produce_group

    group = produce_group()
    context = click.Context(group, info_name="vibe")
    for section, names in COMMANDS.items():
        yield from (section, "-" * len(section), "")
        for name in names:
            command = group.get_command(context, name)
            assert command is not None
            yield from write_command(command, click.Context(command, context, info_name=name))


def write_command(command: click.Command, context: click.Context) -> Iterator[str]:
    """Write the ``--help`` output of a command and its subcommands."""
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


def read_meanings(name: str) -> dict[str, str]:
    """Return the descriptions of attributes in the docstring of a class or function.

    Args:
        name: Of a class, as ``package.module:Class``.
    """
    module, _, attribute = name.partition(":")
    text = inspect.getdoc(getattr(importlib.import_module(module), attribute)) or ""
    section = text.partition("Attributes:\n")[2].partition("\n\n")[0]
    pairs = re.findall(r"^    ([\w, ]+): (.+(?:\n        .+)*)", section, re.MULTILINE)
    return {
        name: " ".join(meaning.split()) for names, meaning in pairs for name in names.split(", ")
    }


def write_field_meanings(name: str) -> Iterator[str]:
    """Write the table of the attributes of a class."""
    rows = [(f"``{field}``", meaning) for field, meaning in read_meanings(name).items()]
    yield from write_table("name", "meaning", rows=rows)


def write_faults() -> Iterator[str]:
    """Write the tables of the simulator's faults and quirks."""
    from vibe_llms.testing.simulator import BATCH_FAULTS, FAULTS, QUIRKS

    for heading, table in (
        ("fault", FAULTS),
        ("fault of batches", BATCH_FAULTS),
        ("quirk", QUIRKS),
    ):
        rows = [(f"``{name}``", meaning) for name, meaning in table.items()]
        yield from write_table(heading, "what it does", rows=rows)


def write_providers() -> Iterator[str]:
    """Write the table of built-in network providers."""
    from vibe_llms.configuration.sources import load_configuration
    from vibe_llms.plugins import PluginManager
    from vibe_llms.providers.openai_compatible.kinds import read_services
    from vibe_llms.providers.remote import RemoteProvider

    manager = PluginManager(configuration=load_configuration(environment={}))
    rows = []
    for name, entry in manager.configuration.providers.items():
        provider = manager.load_provider(name)
        if not isinstance(provider, RemoteProvider):
            continue
        vendor = provider.produce_client().vendor
        keys = " or ".join(f"``{variable}``" for variable in vendor.key_variables) or "none"
        if name in read_services():
            summary = read_services()[name].summary
        else:
            (specification,) = importlib.import_module(entry.module).survey_providers()
            summary = specification.summary
        what = f"{summary}; ``{vendor.dialect.PROTOCOL}`` at ``{vendor.settings.base_url}``"
        rows.append((f"``{name}``", keys, what))
    yield from write_table("provider", "API key", "models; protocol and base URL", rows=rows)


SETTING_MEANINGS = {
    "api_key": "The key itself. A file or an environment variable is safer.",
    "api_key_file": "A file that contains only the key; read again for each request.",
    "api_key_variable": "The environment variable with the key, instead of the usual one.",
    "base_url": "The address of the service, for example your own gateway.",
    "certificate_authorities": "A PEM file, or a folder of them, with authorities to trust "
    "besides the system's.",
    "client_certificate": "A PEM file with the client's certificate (mutual TLS).",
    "client_key": "The certificate's private key, if it is not in the same file.",
    "headers": "Sent with each request. Their values are treated as secrets.",
    "model": "The default model, for an address that names none.",
    "proxy": "An HTTP proxy. By default ``HTTPS_PROXY``, ``NO_PROXY`` and similar are used.",
    "requests_per_minute": "The most requests per minute, evenly spread.",
    "tokens_per_minute": "The most tokens per minute, input and output: estimated first, then "
    "corrected by the usage that the provider reports.",
    "transport": "``direct``, or ``sdk`` for the provider's official package.",
}


def write_remote_settings() -> Iterator[str]:
    """Write the table of the settings that all remote providers have."""
    from vibe_llms.providers.settings import SETTINGS

    timeouts = read_meanings("vibe_llms.wire.exchanges:Timeouts")
    rows = [
        (f"``{name}``", {**SETTING_MEANINGS, **timeouts}[name], kind.words)
        for name, kind in SETTINGS.items()
    ]
    yield from write_table("setting", "meaning", "value", rows=rows)


def write_server_settings() -> Iterator[str]:
    """Write the table of the settings of an MCP server."""
    from vibe_llms.invocables.mcp.settings import McpServer
    from vibe_llms.tables.annotations import survey_kinds

    meanings = read_meanings("vibe_llms.invocables.mcp.settings:McpServer")
    kinds = {key: kind for key, kind in survey_kinds(McpServer).items() if key != "name"}
    rows = [(f"``{key}``", meanings[key], kind.words) for key, kind in kinds.items()]
    yield from write_table("setting", "meaning", "value", rows=rows)


GUARD_SETTINGS = {
    "": "settings:GuardSettings",
    "secrets": "shipped.secrets:SecretSettings",
    "words": "shipped.words:WordSettings",
    "moderator": "shipped.moderation:ModeratorSettings",
    "judge": "shipped.judgment:JudgeSettings",
}


def write_guard_settings() -> Iterator[str]:
    """Write the tables of the settings that all guards have, and of those of each shipped kind."""
    from vibe_llms.tables.annotations import survey_kinds

    for kind, place in GUARD_SETTINGS.items():
        module, name = place.split(":")
        meanings = read_meanings(f"vibe_llms.guards.{place}")
        cls = getattr(importlib.import_module(f"vibe_llms.guards.{module}"), name)
        if kind:
            yield from (f"``{kind}``", "~" * (len(kind) + 4), "")
        kinds = survey_kinds(cls)
        rows = [(f"``{key}``", meanings[key], each.words) for key, each in kinds.items()]
        yield from write_table("setting", "meaning", "value", rows=rows)


def write_task_file() -> Iterator[str]:
    """Write a table for each part of a task file."""
    from vibe_llms.flows import tasks
    from vibe_llms.tables.annotations import survey_kinds, survey_required

    for place, name in TASK_PARTS.items():
        cls = getattr(tasks, name)
        meanings, required = read_meanings(f"vibe_llms.flows.tasks:{name}"), survey_required(cls)
        if place:
            first = (inspect.getdoc(cls) or "").partition("\n")[0]
            yield from (f"``{place}``", "-" * (len(place) + 4), "", first, "")
        rows = [
            (f"``{field}``", meanings[field], kind.words, "yes" if field in required else "")
            for field, kind in survey_kinds(cls).items()
            if field != "place"  # not part of the file
        ]
        yield from write_table("name", "meaning", "value", "required", rows=rows)


TASK_PARTS = {
    "": "Task",
    "goal": "Goal",
    "goal.target_conditions[]": "TargetCondition",
    "resource_llm": "ResourceLlm",
    "resource_registry.entries[]": "RegistryEntry",
    "prompts[]": "PromptTemplate",
    "flow_diagram": "FlowDiagram",
    "categories.<label>": "CategoryRule",
}

NODE_MEANINGS = {
    "start": ("``START``", "Where the flow begins."),
    "end": ("``END``", "Where it ends. The last response is the final response."),
    "prompt": ("``P0``, ``P1`` …", "Sends the prompt with this number to the model. Any shape."),
    "condition": (
        "``X{Enough?}``",
        "Takes one of its labelled edges, chosen by the last response.",
    ),
    "loop": (
        "``X([Refine x3])``",
        "Repeats as often as its label says: ``x3``, ``*3``, ``max 3``, ``3 times``; "
        "without a number, until ``max_iterations``.",
    ),
    "step": (
        "``X[Collect]``, and all others",
        "Does nothing; edges meet or branches begin here.",
    ),
    "tool": (
        '``X[/"tool key=value"/]``',
        "Calls a tool; its result is the response. Values can be templates; put text with spaces "
        "into single quotes. Text that is a number or list in JSON is converted if the "
        "tool expects that, and a number is converted to text.",
    ),
    "subflow": (
        "``X[[review]]``",
        "Runs the task ``review.json`` or ``review.toml`` in the same folder. The previous "
        "response is its variable ``input``, and its final response is the response.",
    ),
}


def write_flow_nodes() -> Iterator[str]:
    """Write the table of kinds of nodes."""
    from vibe_llms.flows.compiling import KINDS_BY_SHAPE
    from vibe_llms.flows.graphs import NodeKind

    rows = []
    for kind in NodeKind:
        written, meaning = NODE_MEANINGS[kind]
        shapes = [f"``{shape}``" for shape, each in KINDS_BY_SHAPE.items() if each is kind]
        rows.append((str(kind), written, ", ".join(shapes), meaning))
    yield from write_table("kind", "written", "shapes", "what it does", rows=rows)


EDGE_MEANINGS = {
    "plain": "always, together with all other edges without a condition",
    "choice": "if the label is the category of the last response",
    "default": "if no label matches; among labelled edges, also one without a label",
    "error": "if the visit failed",
    "limit": "if the visit or the loop reached a limit",
}


def write_flow_edges() -> Iterator[str]:
    """Write the table of kinds of edges."""
    from vibe_llms.flows.compiling import KINDS_BY_LABEL
    from vibe_llms.flows.graphs import EdgeKind

    rows = []
    for kind in EdgeKind:
        labels = [f"``{label}``" for label, each in KINDS_BY_LABEL.items() if each is kind]
        others = {EdgeKind.PLAIN: "none", EdgeKind.CHOICE: "any other"}
        rows.append((", ".join(labels) or others[kind], EDGE_MEANINGS[kind]))
    yield from write_table("label", "taken", rows=rows)


def write_model_keys() -> Iterator[str]:
    """Write the table of keys in model files."""
    from vibe_llms.models.keys import KEYS

    rows = []
    for key in KEYS:
        text = key.description
        if key.alias_of:
            text = f"{text} Sets ``{key.alias_of}``."
        rows.append((f"``{key.name}``", str(key.role), text))
    yield from write_table("key", "is", "means", rows=rows)


def write_dialects() -> Iterator[str]:
    """Write the table of the functions of a dialect, with their first lines."""
    package = importlib.import_module("vibe_llms.dialects.chat_completions")
    rows = [
        (f"``{name}``", (inspect.getdoc(value) or "").partition("\n")[0])
        for name, value in ((name, getattr(package, name)) for name in package.__all__)
        if callable(value)
    ]
    yield from write_table("name", "what it does", rows=rows)


def write_provider_faults() -> Iterator[str]:
    """Write the table of provider faults."""
    from vibe_llms.exceptions import RETRYABLE_FAULTS, ProviderFault

    rows = [
        (f"``{fault}``", FAULT_MEANINGS[fault], "yes" if fault in RETRYABLE_FAULTS else "no")
        for fault in ProviderFault
    ]
    yield from write_table("fault", "meaning", "retried", rows=rows)


FAULT_MEANINGS = {
    "authentication": "The key is missing or wrong.",
    "permission": "The key is valid, but does not allow this.",
    "quota": "The quota or credit is used up; waiting does not help.",
    "not-found": "The model, file or address does not exist.",
    "invalid-request": "The provider rejects the request as it is.",
    "blocked": "The provider's policy forbids it.",
    "rate-limited": "Too many requests or tokens in too short a time.",
    "overloaded": "The provider has too much load.",
    "server": "Something failed at the provider.",
    "timeout": "The provider exceeded its own time limit.",
    "unknown": "The provider's error is not known to vibe-llms.",
}

ERROR_TABLES = {
    "All dialects": (("errors", "FAULTS_BY_STATUS", "status"),),
    "Chat Completions and Responses": (("openai_errors", "FAULTS_BY_WORD", "code or type"),),
    "Messages": (
        ("messages.calling.errors", "FAULTS_BY_TYPE", "type"),
        ("messages.calling.errors", "FAULTS_BY_CODE", "code"),
    ),
    "generateContent": (
        ("google_errors", "FAULTS_BY_STATUS_NAME", "status in words"),
        ("google_errors", "FAULTS_BY_REASON", "reason"),
    ),
}


def write_vendor_errors() -> Iterator[str]:
    """Writes, dialect by dialect, which of the vendors' words means which fault."""
    for dialect, tables in ERROR_TABLES.items():
        yield from (dialect, "~" * len(dialect), "")
        for module, name, heading in tables:
            table = getattr(importlib.import_module(f"vibe_llms.dialects.{module}"), name)
            by_fault: dict[str, list[str]] = {}
            for word, fault in table.items():
                by_fault.setdefault(str(fault), []).append(f"``{word}``")
            rows = [(f"``{fault}``", ", ".join(words)) for fault, words in by_fault.items()]
            yield from write_table("fault", heading, rows=rows)


def write_server_tools() -> Iterator[str]:
    """Write the table of server tools: one row per service, one column per tool."""
    from vibe_llms.dialects.server_tools import access_forms
    from vibe_llms.messages.server_tools import SERVER_TOOLS

    services = dict.fromkeys((form.dialect, form.service) for form in access_forms())
    rows = []
    for name in SERVER_TOOLS:
        cells = []
        for dialect, service in services:
            forms = [
                form
                for form in access_forms()
                if (form.dialect, form.service, form.name) == (dialect, service, name)
            ]
            cells.append(", ".join(dict.fromkeys(f"``{form.kind}``" for form in forms)))
        rows.append((f"``{name}``", *cells))
    headings = [f"{service} (``{dialect}``)" for dialect, service in services]
    yield from write_table("tool", *headings, rows=rows)


WRITERS: dict[str, Callable[..., Iterator[str]]] = {
    "engine-table": write_engine_table,
    "command-line": write_command_line,
    "dialects": write_dialects,
    "exit-codes": write_exit_codes,
    "faults": write_faults,
    "field-meanings": write_field_meanings,
    "flow-edges": write_flow_edges,
    "flow-nodes": write_flow_nodes,
    "model-keys": write_model_keys,
    "provider-faults": write_provider_faults,
    "providers": write_providers,
    "public-names": write_public_names,
    "remote-settings": write_remote_settings,
    "server-tools": write_server_tools,
    "guard-settings": write_guard_settings,
    "server-settings": write_server_settings,
    "settings": write_settings,
    "slash-commands": write_slash_commands,
    "task-file": write_task_file,
    "vendor-errors": write_vendor_errors,
}


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directives."""
    for name, write in WRITERS.items():
        app.add_directive(name, type("Written", (Written,), {"write": staticmethod(write)}))
    return {"parallel_read_safe": True}

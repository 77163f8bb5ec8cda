"""Shell completion: candidates, and the protocol with bash.

Each survey function takes the start of a word, and returns candidates with short descriptions.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import click
from click.shell_completion import BashComplete, CompletionItem, split_arg_string

from vibe_llms.interfaces.cli.access import (
    load_configuration,
    open_index,
    open_plugins,
    survey_addresses,
)

Candidates: TypeAlias = list[tuple[str, str]]

# The script of click, with two changes: the line is passed as typed, because bash splits words at
# colons; and no space follows incomplete candidates.
_BASH = """\
%(complete_func)s() {
    local IFS=$'\\n' response completion type value
    response=$(env COMP_LINE="${COMP_LINE:0:$COMP_POINT}" COMP_TYPE="$COMP_TYPE" \\
        COMP_WORDBREAKS="$COMP_WORDBREAKS" %(complete_var)s=bash_complete "$1")
    for completion in $response; do
        IFS=',' read -r type value <<< "$completion"
        case $type in
            dir) COMPREPLY=(); compopt -o dirnames ;;
            file) COMPREPLY=(); compopt -o default ;;
            plain) COMPREPLY+=("$value") ;;
        esac
        [[ $value == *[:=,] ]] && compopt -o nospace
    done
    return 0
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""

_LISTING = frozenset({33, 63, 64})
"""Completion types that list candidates and insert none: see COMP_TYPE in bash's manual."""


class Bash(BashComplete):
    """Bash completion, which also handles words with colons and shows descriptions.

    Bash splits words at colons, so the text before a colon must not be part of a candidate.
    Descriptions are added when candidates are listed, not when one is inserted.
    """

    source_template = _BASH

    def get_completion_args(self) -> tuple[list[str], str]:
        """Read the typed line: bash's own words are split at colons."""
        line = os.environ["COMP_LINE"]
        words = split_arg_string(line)
        incomplete = "" if not line or line[-1].isspace() else words.pop()
        return words[1:], incomplete

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
        """Remove from each candidate the part that bash considers an earlier word."""
        items = super().get_completions(args, incomplete)
        # For --option=value, click's candidates are values without the option.
        is_option = incomplete.startswith("-") and "=" in incomplete
        typed = incomplete.partition("=")[2] if is_option else incomplete
        separators = set(os.environ.get("COMP_WORDBREAKS", "")) & {":", "="}
        word_start = max((typed.rfind(mark) + 1 for mark in separators), default=0)
        is_listing = len(items) > 1 and int(os.environ.get("COMP_TYPE") or 0) in _LISTING
        for item in items:
            if item.type == "plain" and item.value.startswith(typed[:word_start]):
                item.value = item.value[word_start:]
            if is_listing and item.help:
                # In one line, because each line of the response is a candidate.
                item.value = f"{item.value}  ({' '.join(item.help.split())[:60]})"
        return items


def survey_conversations(incomplete: str) -> Candidates:
    """Newest conversations by id, with their titles."""
    rows = open_index().survey(limit=200)
    return [(row.id, row.name or row.first_words) for row in rows if row.id.startswith(incomplete)]


def survey_flow_runs(incomplete: str) -> Candidates:
    """Newest runs of flows by id, with their goals."""
    from vibe_llms.conversations.tags import FLOW_TAG

    rows = open_index().survey(limit=200)
    return [
        (row.id, row.name or row.first_words)
        for row in rows
        if FLOW_TAG in row.tags and row.id.startswith(incomplete)
    ]


def survey_runs(incomplete: str) -> Candidates:
    """Newest runs by id, with their states and names."""
    from itertools import islice

    from vibe_llms.interfaces.cli.access import open_store
    from vibe_llms.runs.indexing import survey_runs as survey

    runs = (each for each in survey(open_store()) if each.id.startswith(incomplete))
    return [(each.id, f"{each.state} {each.name}".strip()) for each in islice(runs, 50)]


def survey_examples(incomplete: str) -> Candidates:
    """Examples of tasks, with their goals."""
    from vibe_llms.flows.examples import survey_examples as survey

    return _select({each.name: each.summary for each in survey()}, incomplete)


def survey_providers(incomplete: str) -> Candidates:
    """Providers and their aliases."""
    configuration = load_configuration()
    names = {each: configuration.aliases.get(each, "") for each in configuration.provider_names}
    return _select({**dict.fromkeys(configuration.providers, ""), **names}, incomplete)


def survey_models(incomplete: str) -> Candidates:
    """Providers and aliases; after a colon, or if one provider matches, its models."""
    configuration = load_configuration()
    names = {**dict.fromkeys(configuration.providers, ""), **configuration.aliases}
    providers = _select(names, incomplete)
    typed_name = incomplete.partition(":")[0]
    if ":" not in incomplete:
        if len(providers) != 1:
            return providers
        typed_name = providers[0][0]
    provider = configuration.follow_aliases(typed_name)
    addresses = survey_addresses(configuration, provider)[1:]  # the first is the provider itself
    # With the typed name, because the shell drops candidates that start differently.
    models = {f"{typed_name}:{each.partition(':')[2]}": "" for each in addresses}
    return [*providers, *_select(models, incomplete)]


def survey_settings(incomplete: str) -> Candidates:
    """Settings, with their descriptions."""
    from vibe_llms.configuration.definitions import SETTINGS

    known = {name: definition.summary for name, definition in SETTINGS.items()}
    return _select({**dict.fromkeys(load_configuration().settings, ""), **known}, incomplete)


def survey_ensembles(incomplete: str) -> Candidates:
    """Ensembles, also after commas."""
    return _select(dict.fromkeys(load_configuration().ensembles, ""), incomplete, several=True)


def survey_notes(incomplete: str) -> Candidates:
    """Notes by path."""
    from vibe_llms.interfaces.cli.commands.memory.reading import open_notes

    book = open_notes(is_whole=incomplete.startswith("projects/"))
    return _select(dict.fromkeys(map(book.paths.name, book.survey()), ""), incomplete)


def survey_servers(incomplete: str) -> Candidates:
    """Configured MCP servers."""
    return _select(dict.fromkeys(load_configuration().servers, ""), incomplete)


def survey_skills(incomplete: str) -> Candidates:
    """Skills by name."""
    from vibe_llms.instruments.skills.finding import survey_skills as survey

    skills = survey(load_configuration())
    return _select({skill.name: str(skill.layer) for skill in skills}, incomplete)


def survey_invocables(incomplete: str) -> Candidates:
    """``all``, and the invocables of the ensembles in the line, which are connected for it."""
    from vibe_llms.interfaces.cli.commands.tools import survey_names

    context = click.get_current_context(silent=True)
    ensembles = context.params.get("tools") if context is not None else None
    names = {"all": "all tools", **dict.fromkeys(survey_names(ensembles or ()), "")}
    return _select(names, incomplete, several=True)


def survey_invocable(incomplete: str) -> Candidates:
    """A single invocable of :func:`survey_invocables`."""
    return [each for each in survey_invocables(incomplete) if each[0] != "all"]


def survey_approvers(incomplete: str) -> Candidates:
    """The user as approver, and the approvers of plugins."""
    from vibe_llms.plugins.specification.runs import ApproverSpecification

    from_plugins = _survey_pieces(ApproverSpecification)
    return _select({**from_plugins, "terminal": "you, at the terminal"}, incomplete)


def survey_gateway_keys(incomplete: str) -> Candidates:
    """Valid keys of the gateway, by name."""
    from vibe_llms.daemons.keys.register import Register
    from vibe_llms.interfaces.cli.access import load_configuration

    register = Register(load_configuration().data_directory / "authorizers" / "keys")
    keys = register.load().items()
    return _select({key.name: id_ for id_, key in keys if key.revoked is None}, incomplete)


def survey_exporters(incomplete: str) -> Candidates:
    """Export formats of conversations."""
    from vibe_llms.plugins.specification.conversations import ExporterSpecification

    return _select(_survey_pieces(ExporterSpecification), incomplete)


def survey_importers(incomplete: str) -> Candidates:
    """Import formats of conversations."""
    from vibe_llms.plugins.specification.conversations import ImporterSpecification

    return _select(_survey_pieces(ImporterSpecification), incomplete)


def _survey_pieces(kind: type[Any]) -> dict[str, str]:
    """List plugins' pieces of one kind, with short descriptions; load the plugins."""
    return {each.name: each.summary for each in open_plugins().survey_specifications(kind)}


def survey_controls(incomplete: str) -> Candidates:
    """Controls, each followed by ``=``."""
    from vibe_llms.models.keys import KEYS, KeyRole

    controls = {f"{key.name}=": "" for key in KEYS if key.role is KeyRole.CONTROL}
    return _select(controls, incomplete)


def survey_plugins(incomplete: str) -> Candidates:
    """Plugins added by the user."""
    from vibe_llms.configuration.classes import Layer

    entries = load_configuration().plugins
    user_modules = {each.name: each.module for each in entries if each.source.layer is Layer.USER}
    return _select(user_modules, incomplete)


def survey_roles(incomplete: str) -> Candidates:
    """Roles of messages."""
    from vibe_llms.conversations.index.tokenization import ROLES

    return _select(dict.fromkeys(ROLES, ""), incomplete)


def _select(words: Mapping[str, str], incomplete: str, *, several: bool = False) -> Candidates:
    """Return the words that start with a text.

    Args:
        several: Whether the text is a comma-separated list, whose last word is completed.
    """
    complete_part = incomplete.rpartition(",")[0] + "," if several and "," in incomplete else ""
    return [
        (f"{complete_part}{word}", text)
        for word, text in words.items()
        if f"{complete_part}{word}".startswith(incomplete) and word not in complete_part.split(",")
    ]


SURVEYS: dict[str, Callable[[str], Candidates]] = {
    "approvers": survey_approvers,
    "controls": survey_controls,
    "conversations": survey_conversations,
    "ensembles": survey_ensembles,
    "examples": survey_examples,
    "exporters": survey_exporters,
    "flow_runs": survey_flow_runs,
    "gateway_keys": survey_gateway_keys,
    "importers": survey_importers,
    "invocable": survey_invocable,
    "invocables": survey_invocables,
    "models": survey_models,
    "notes": survey_notes,
    "plugins": survey_plugins,
    "providers": survey_providers,
    "roles": survey_roles,
    "runs": survey_runs,
    "servers": survey_servers,
    "settings": survey_settings,
    "skills": survey_skills,
}
"""Maps kinds of candidates to the functions that list them."""


def complete(kind: str, incomplete: str) -> Candidates:
    """List the candidates of a kind that begin with a text; none if they are unavailable."""
    try:
        return SURVEYS[kind](incomplete)
    except Exception:  # a traceback would appear in the shell's prompt
        return []

"""Shell completion: candidates, and the protocol with bash.

Each survey takes the beginning of a word, and returns candidates with short descriptions.
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

# Click's own, with two changes: the line is passed as typed, because bash splits words at
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
    """Bash completion; colons split words in bash, so text before them is not repeated.

    Descriptions appear beside candidates when these are listed, not when one is inserted.
    """

    source_template = _BASH

    def get_completion_args(self) -> tuple[list[str], str]:
        """Read the typed line: bash's own words are split at colons."""
        line = os.environ["COMP_LINE"]
        words = split_arg_string(line)
        incomplete = "" if not line or line[-1].isspace() else words.pop()
        return words[1:], incomplete

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
        """Remove from each candidate the part that bash considers a word of its own."""
        found = super().get_completions(args, incomplete)
        # Otherwise click's candidates lack the option.
        is_option = incomplete.startswith("-") and "=" in incomplete
        typed = incomplete.partition("=")[2] if is_option else incomplete
        breaks = set(os.environ.get("COMP_WORDBREAKS", "")) & {":", "="}
        cut = max((typed.rfind(mark) + 1 for mark in breaks), default=0)
        is_shown = len(found) > 1 and int(os.environ.get("COMP_TYPE") or 0) in _LISTING
        for item in found:
            if item.type == "plain" and item.value.startswith(typed[:cut]):
                item.value = item.value[cut:]
            if is_shown and item.help:
                # Each line of the response is one candidate: a line break in the help makes two.
                item.value = f"{item.value}  ({' '.join(item.help.split())[:60]})"
        return found


def survey_conversations(incomplete: str) -> Candidates:
    """Newest conversations by id, with their titles."""
    rows = open_index().survey(limit=200)
    return [(row.id, row.name or row.first_words) for row in rows if row.id.startswith(incomplete)]


def survey_flow_runs(incomplete: str) -> Candidates:
    """Newest runs of flows by id, with their goals."""
    from vibe_llms.flows.visiting import TAG

    rows = open_index().survey(limit=200)
    return [
        (row.id, row.name or row.first_words)
        for row in rows
        if TAG in row.tags and row.id.startswith(incomplete)
    ]


def survey_runs(incomplete: str) -> Candidates:
    """Newest runs by id, with their states and names."""
    from itertools import islice

    from vibe_llms.interfaces.cli.access import open_store
    from vibe_llms.runs.indexing import survey_runs as survey

    found = (each for each in survey(open_store()) if each.id.startswith(incomplete))
    return [(each.id, f"{each.state} {each.name}".strip()) for each in islice(found, 50)]


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
    """Providers and aliases; after a colon, or if only one provider matches, its models."""
    configuration = load_configuration()
    words = {**dict.fromkeys(configuration.providers, ""), **configuration.aliases}
    found = _select(words, incomplete)
    provider = incomplete.partition(":")[0]
    if ":" not in incomplete:
        if len(found) != 1:
            return found
        provider = found[0][0]
    meant = configuration.follow_aliases(provider)
    addresses = survey_addresses(configuration, meant)[1:]  # the first is the provider itself
    # Under the typed name: the shell drops candidates with another beginning.
    models = {f"{provider}:{each.partition(':')[2]}": "" for each in addresses}
    return [*found, *_select(models, incomplete)]


def survey_settings(incomplete: str) -> Candidates:
    """Settings, with their descriptions."""
    from vibe_llms.configuration.definitions import SETTINGS

    known = {name: definition.summary for name, definition in SETTINGS.items()}
    return _select({**dict.fromkeys(load_configuration().settings, ""), **known}, incomplete)


def survey_ensembles(incomplete: str) -> Candidates:
    """Ensembles, also after commas."""
    return _select(dict.fromkeys(load_configuration().ensembles, ""), incomplete, several=True)


def survey_servers(incomplete: str) -> Candidates:
    """Configured MCP servers."""
    return _select(dict.fromkeys(load_configuration().servers, ""), incomplete)


def survey_skills(incomplete: str) -> Candidates:
    """Skills by name."""
    from vibe_llms.instruments.skills.finding import survey_skills as survey

    found = survey(load_configuration())
    return _select({skill.name: str(skill.layer) for skill in found}, incomplete)


def survey_invocables(incomplete: str) -> Candidates:
    """``all``, and the invocables of the ensembles named in the line, which are connected."""
    from vibe_llms.interfaces.cli.commands.tools import survey_names

    context = click.get_current_context(silent=True)
    named = context.params.get("tools") if context is not None else None
    words = {"all": "all tools", **dict.fromkeys(survey_names(named or ()), "")}
    return _select(words, incomplete, several=True)


def survey_invocable(incomplete: str) -> Candidates:
    """A single invocable of :func:`survey_invocables`."""
    return [each for each in survey_invocables(incomplete) if each[0] != "all"]


def survey_approvers(incomplete: str) -> Candidates:
    """The user as approver, and the approvers of plugins."""
    from vibe_llms.plugins.specification.runs import ApproverSpecification

    brought = _survey_pieces(ApproverSpecification)
    return _select({**brought, "terminal": "you, at the terminal"}, incomplete)


def survey_gateway_keys(incomplete: str) -> Candidates:
    """Valid keys of the gateway, by name."""
    from vibe_llms.daemons.keys.register import Register
    from vibe_llms.interfaces.cli.access import load_configuration

    register = Register(load_configuration().data_directory / "authorizers" / "keys")
    given = register.load().items()
    return _select({key.name: id_ for id_, key in given if key.revoked is None}, incomplete)


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
    """Controls, each with the sign before its value."""
    from vibe_llms.models.keys import KEYS, KeyRole

    controls = {f"{key.name}=": "" for key in KEYS if key.role is KeyRole.CONTROL}
    return _select(controls, incomplete)


def survey_plugins(incomplete: str) -> Candidates:
    """Plugins added by the user."""
    from vibe_llms.configuration.classes import Layer

    entries = load_configuration().plugins
    own = {each.name: each.module for each in entries if each.source.layer is Layer.USER}
    return _select(own, incomplete)


def survey_roles(incomplete: str) -> Candidates:
    """Roles of messages."""
    from vibe_llms.conversations.index.tokenization import ROLES

    return _select(dict.fromkeys(ROLES, ""), incomplete)


def _select(words: Mapping[str, str], incomplete: str, *, several: bool = False) -> Candidates:
    """Return the words with this beginning; comma-separated words are completed once each."""
    begun = incomplete.rpartition(",")[0] + "," if several and "," in incomplete else ""
    return [
        (f"{begun}{word}", text)
        for word, text in words.items()
        if f"{begun}{word}".startswith(incomplete) and word not in begun.split(",")
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
    except Exception:  # no tracebacks in a shell's prompt
        return []

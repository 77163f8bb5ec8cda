"""``vibe config``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from vibe_llms.interfaces.cli.access import load_configuration, warn_untrusted
from vibe_llms.interfaces.cli.options import SETTING, Command, Group, json_option
from vibe_llms.interfaces.cli.output import note, write_explanations, write_json, write_table

if TYPE_CHECKING:
    from vibe_llms.configuration.editing import FileDraft
    from vibe_llms.exceptions import Finding


@click.group("config", cls=Group, default="show")
def config() -> None:
    """Show, check and change the configuration. Without a command: show."""


@config.command("show", cls=Command)
@json_option
def show(as_json: bool) -> None:
    """Show every value and where it is set. Secrets are hidden."""
    from vibe_llms.configuration.explanations import explain_configuration

    explanations = explain_configuration(load_configuration())
    if as_json:
        write_json(
            [
                {"name": each.name, "value": each.value, "source": each.source}
                for each in explanations
            ]
        )
        return
    write_explanations((each.name, _format(each.value), each.source) for each in explanations)


@config.command("check", cls=Command)
@json_option
def check(as_json: bool) -> int:
    """Check the configuration and every provider, ensemble, server and plugin that it names.

    All mistakes are listed at once, with file and line. The exit code is 3 if there are any, or if
    the configured model needs a package that is missing.
    """
    import attrs

    from vibe_llms.exceptions import ConfigurationError
    from vibe_llms.interfaces.cli.errors import ExitCode

    try:
        findings = _find_mistakes()
    except ConfigurationError as error:  # such as an unreadable file
        if not as_json or not error.findings:
            raise
        findings = error.findings
    if as_json:
        write_json({"findings": [attrs.asdict(finding) for finding in findings]})
    elif findings:
        raise ConfigurationError(findings=findings)
    else:
        note("The configuration is valid.")
    return ExitCode.CONFIGURATION if findings else ExitCode.SUCCESS


def _find_mistakes() -> tuple[Finding, ...]:
    from vibe_llms.application import Application
    from vibe_llms.interfaces.cli.configuration_checks import survey_mistakes

    configuration = load_configuration()
    warn_untrusted(configuration)
    # Without duplicates: a mistake in [[models]] is found once per provider.
    return tuple(dict.fromkeys(survey_mistakes(Application(configuration))))


@config.command("set", cls=Command)
@click.argument("name", type=SETTING)
@click.argument("value")
def set_(name: str, value: str) -> None:
    """Set a value in your configuration file: NAME as in `show`, VALUE as TOML or text.

    \b
        vibe config set model anthropic
        vibe config set aliases.fast groq:openai/gpt-oss-120b
        vibe config set limits.attempts 5

    Comments and order are preserved. An invalid value is refused, and the file stays unchanged.
    """
    from vibe_llms.configuration.editing import FileDraft, read_name

    path = read_name(name)
    if path[0] == "providers" and (path[-1] == "api_key" or "headers" in path):
        is_key = path[-1] == "api_key"
        advice = f"use vibe credentials set {path[1]}" if is_key else "write it into the file"
        raise click.UsageError(
            f"Other users can read command lines, so do not pass secrets: {advice}"
        )
    draft = FileDraft()
    draft.set(name, value)
    _save(draft, name)


@config.command("unset", cls=Command)
@click.argument("name", type=SETTING)
def unset(name: str) -> None:
    """Remove a value from your configuration file."""
    from vibe_llms.configuration.editing import FileDraft

    draft = FileDraft()
    draft.unset(name)
    _save(draft, name)


def _save(draft: FileDraft, name: str) -> None:
    """Write the file, unless the change is a mistake."""
    from vibe_llms.application import Application
    from vibe_llms.configuration.editing import find_overriding_place, read_name
    from vibe_llms.exceptions import ConfigurationError
    from vibe_llms.interfaces.cli.configuration_checks import survey_mistakes
    from vibe_llms.models.genera import Genus

    configuration = draft.load()
    checked_tables = ("aliases", "ensembles", "mcp", "model", "providers", *Genus)
    if name.partition(".")[0] in checked_tables:
        mistakes = survey_mistakes(Application(configuration), about=read_name(name))
        if findings := tuple(dict.fromkeys(map(draft.name_key, mistakes))):
            raise ConfigurationError(findings=findings)
    draft.save()
    note(f"Written: {draft.file}")
    if winner := find_overriding_place(configuration, name):
        note(f"It has no effect here: {winner} takes precedence.")


@config.command("path", cls=Command)
@json_option
def path(as_json: bool) -> None:
    """Print the paths of the configuration files and of stored data.

    Invalid files are listed, too, with an error on standard error.
    """
    from vibe_llms.configuration.sources import load_valid_part

    configuration, findings = load_valid_part()
    rows = [
        (str(file.layer), str(file.path), "" if file.exists else "missing")
        for file in configuration.files
    ]
    rows.append(("data", str(configuration.data_directory), ""))
    rows.append(("cache", str(configuration.cache_directory), ""))
    if as_json:
        write_json({name: place for name, place, _ in rows})
    else:
        write_table(rows, headers=("layer", "path", ""), styles=("cyan", "", "dim"), whole=True)
    for finding in findings:
        note(str(finding))


def _format(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else str(value)

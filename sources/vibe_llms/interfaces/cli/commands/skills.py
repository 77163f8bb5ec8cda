"""``vibe skills``: instructions with settings, files and scripts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vibe_llms.interfaces.cli.access import load_application, load_configuration
from vibe_llms.interfaces.cli.errors import ExitCode
from vibe_llms.interfaces.cli.options import SKILL, Command, Group, json_option, yes_option
from vibe_llms.interfaces.cli.output import (
    note,
    reveal,
    reveal_head,
    reveal_lines,
    write,
    write_explanations,
    write_json,
    write_styled,
    write_table,
)

if TYPE_CHECKING:
    from vibe_llms.instruments.skills import FoundSkill, Skill


@click.group("skills", cls=Group, default="list")
def skills() -> None:
    """List, show and validate skills. Without a command: list."""


@skills.command("list", cls=Command)
@json_option
def list_(as_json: bool) -> None:
    """List your skills, the project's and the built-in ones.

    Searched are skills/ beside your configuration file, the folders in [ensembles.skills], .agents,
    .claude and .codex in your home, and .vibe-llms, .agents and .claude in the project.
    """
    from vibe_llms.exceptions import ConfigurationError
    from vibe_llms.instruments.skills import survey_skills
    from vibe_llms.instruments.skills.finding import survey_misnamed

    configuration = load_configuration()
    for path in survey_misnamed(configuration):
        rule = "The name of a skill's folder may contain only letters, digits, '_', '.' and '-'."
        note(f"{path}: {rule}")
    read: list[tuple[FoundSkill, Skill]] = []
    for found in survey_skills(configuration):
        try:
            read.append((found, found.read()))
        except ConfigurationError as error:
            note(str(error))
    if as_json:
        write_json([_encode(found, skill) for found, skill in read])
        return
    write_table(
        [
            (reveal(found.name), _name_layer(found), reveal_head(skill.description))
            for found, skill in read
        ],
        headers=("name", "from", "description"),
        styles=("cyan", "dim", ""),
    )


@skills.command("show", cls=Command)
@click.argument("name", type=SKILL)
@json_option
def show(name: str, as_json: bool) -> None:
    """Show a skill: its settings, files and instructions. NAME may also be a path."""
    found = _find(name)
    skill = found.read()
    if as_json:
        write_json(_encode(found, skill))
        return
    write_styled(reveal(f"{found.name}  ({_name_layer(found)})"), "bold")
    write(reveal_lines(skill.description))
    write()
    tools = (*skill.ensembles, *(f"mcp:{each}" for each in skill.mcp))
    rows = [
        ("file", skill.place, ""),
        ("model", skill.model, "unless you choose another"),
        ("tools", ", ".join(tools), "ensembles and MCP servers"),
        ("license", skill.license, ""),
        ("requires", skill.compatibility, ""),
        ("recommends", ", ".join(skill.allowed_tools), "tools; none of them is allowed by that"),
        ("files", ", ".join(_list_files(skill)), ""),
        *((key, str(value), "") for key, value in skill.metadata.items()),
    ]
    write_explanations([(key, reveal(value), text) for key, value, text in rows if value])
    write()
    write(reveal_lines(skill.prompt.strip()))


@skills.command("validate", cls=Command)
@click.argument("names", metavar="[NAME|PATH...]", nargs=-1, type=SKILL)
@json_option
def validate(names: tuple[str, ...], as_json: bool) -> int:
    """Validate skills by the rules that other agents enforce; by default, all but the built-in.

    \b
        vibe skills validate ./pdf-forms
    """
    from vibe_llms.configuration.classes import Layer
    from vibe_llms.instruments.skills import survey_skills
    from vibe_llms.instruments.skills.validating import examine_skill

    found = survey_skills(load_configuration()) if not names else ()
    paths = [_find(name).path for name in names]
    paths += [each.path for each in found if each.layer is not Layer.DEFAULTS]
    reports = [(path, examine_skill(path)) for path in paths]
    if as_json:
        write_json(
            [
                {
                    "path": str(path),
                    "errors": [str(each) for each in report.errors],
                    "remarks": [str(each) for each in report.remarks],
                }
                for path, report in reports
            ]
        )
    else:
        for path, report in reports:
            for finding in report.errors:
                write(f"error: {reveal(str(finding))}")
            for finding in report.remarks:
                write(f"remark: {reveal(str(finding))}")
            if not report.errors:
                write(f"{reveal(str(path))} is valid.")
        if not reports:
            note("There are no skills to validate; name a path.")
    is_valid = not any(report.errors for _, report in reports)
    return ExitCode.SUCCESS if is_valid else ExitCode.CONFIGURATION


@skills.command("trust", cls=Command)
@click.argument("names", metavar="NAME...", nargs=-1, required=True, type=SKILL)
@yes_option
def trust(names: tuple[str, ...], yes: bool) -> None:
    """Trust skills of the project, so that models see their descriptions and load them.

    NAME may also be a path.

    Trust ends when a file of the skill changes.
    """
    from vibe_llms.configuration.classes import Layer
    from vibe_llms.foundation.files import resolve_links
    from vibe_llms.instruments.skills.finding import load_found, survey_skills

    application = load_application(yes=yes)
    projects = {
        resolve_links(each.path): each
        for each in survey_skills(application.configuration)
        if each.layer is Layer.PROJECT
    }
    for name in names:
        found = projects.get(resolve_links(_find(name).path))
        if found is None:
            note(f"No trust is needed: {name} is not a skill of the project.")
            continue
        load_found(found, application)
        note(f"Trusted: {name}.")


def _find(name: str) -> FoundSkill:
    """Find a skill by its name or path."""
    from vibe_llms.instruments.skills.finding import locate_skill

    return locate_skill(name, load_configuration())


def _name_layer(found: FoundSkill) -> str:
    from vibe_llms.configuration.classes import Layer

    names = {Layer.USER: "yours", Layer.PROJECT: "project", Layer.DEFAULTS: "built-in"}
    return names.get(found.layer, "path")


def _list_files(skill: Skill) -> list[str]:
    from vibe_llms.instruments.skills.files import SKILL_FILE, list_files

    files = list_files(Path(skill.folder)) if skill.folder else ()
    return [each for each in files if each != SKILL_FILE]


def _encode(found: FoundSkill, skill: Skill) -> dict[str, Any]:
    import attrs

    fields = attrs.asdict(skill)
    return {**fields, "name": found.name, "from": _name_layer(found), "files": _list_files(skill)}

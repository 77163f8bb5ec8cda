"""Validation of skills by the rules that other agents enforce."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from vibe_llms.exceptions import ConfigurationError, Finding
from vibe_llms.instruments.skills.files import SKILL_FILE, list_files
from vibe_llms.instruments.skills.reading import read_skill
from vibe_llms.instruments.skills.skill import Skill
from vibe_llms.tables.front_matter import MarkdownFile, split_front_matter

_NAME: Final = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_NAME_CHARACTERS: Final = 64
_DESCRIPTION_CHARACTERS: Final = 1_024
_COMPATIBILITY_CHARACTERS: Final = 500
_BODY_LINES: Final = 500
# Source: https://agentskills.io/specification, read on 2026-11-29.
_FIELDS: Final = frozenset(
    {"name", "description", "license", "compatibility", "metadata", "allowed-tools"}
)
_LINK: Final = re.compile(r"\]\(([^)\s#]+)(?:#[^)]*)?\)")


class SkillReport(NamedTuple):
    """Result of the validation of a skill.

    Attributes:
        errors: Violations of the rules; empty for a valid skill.
        remarks: Advice.
    """

    errors: tuple[Finding, ...] = ()
    remarks: tuple[Finding, ...] = ()


def examine_skill(path: Path | str) -> SkillReport:
    """Validate a skill: a file in TOML, or a folder with ``SKILL.md``."""
    path = Path(path)
    if not path.is_dir() and path.suffix == "":
        message = "There is no such file or folder."
        return SkillReport((Finding(place=str(path), message=message),))
    try:
        skill = read_skill(path)
        if not skill.folder:
            return SkillReport()
        front = split_front_matter(Path(skill.place).read_text("utf-8-sig"), skill.place)
        files = list_files(Path(skill.folder))
    except ConfigurationError as error:
        return SkillReport(error.findings or (Finding(place=str(path), message=error.detail),))
    errors = _find_errors(skill, front)
    remarks = _find_remarks(skill, front, files)
    place = skill.place
    return SkillReport(
        tuple(Finding(place=place, message=each) for each in errors),
        tuple(Finding(place=place, message=each) for each in remarks),
    )


def _find_errors(skill: Skill, front: MarkdownFile) -> Iterator[str]:
    for field in ("name", "license", "compatibility"):
        if not isinstance(front.fields.get(field, ""), str):
            yield f"{field}: It must be a text."
    name, folder = front.fields.get("name", ""), Path(skill.folder).name
    if not name:
        yield "name: It is missing. Use the folder's name."
    elif isinstance(name, str):
        yield from _find_name_errors(name, folder)
    if len(skill.description) > _DESCRIPTION_CHARACTERS:
        yield f"description: It has more than {_DESCRIPTION_CHARACTERS} characters."
    if len(skill.compatibility) > _COMPATIBILITY_CHARACTERS:
        yield f"compatibility: It has more than {_COMPATIBILITY_CHARACTERS} characters."
    metadata = front.fields.get("metadata", {})
    if not isinstance(metadata, dict) or not all(
        isinstance(each, str) for each in metadata.values()
    ):
        yield "metadata: It must be a table of texts."
    if not skill.prompt.strip():
        yield "The instructions below the front matter are missing."


def _find_name_errors(name: str, folder: str) -> Iterator[str]:
    if _NAME.fullmatch(name) is None or len(name) > _NAME_CHARACTERS:
        yield (
            f"name: {name!r} is invalid. Use up to {_NAME_CHARACTERS} small letters, digits and "
            "single hyphens."
        )
    elif name != folder:
        yield f"name: {name!r} differs from the folder's name {folder!r}."


def _find_remarks(skill: Skill, front: MarkdownFile, files: tuple[str, ...]) -> Iterator[str]:
    for field in front.fields:
        if field not in _FIELDS and field != "disable-model-invocation":
            yield f"{field}: This field is ignored."
    if skill.allowed_tools:
        yield "allowed-tools: A skill grants no permissions; calls still require approvals."
    if skill.prompt.count("\n") >= _BODY_LINES:
        yield f"{SKILL_FILE} has more than {_BODY_LINES} lines; move details to other files."
    for target in dict.fromkeys(_LINK.findall(skill.prompt)):
        is_local = "://" not in target and not target.startswith(("/", "mailto:"))
        if is_local and target.removeprefix("./").rstrip("/") not in files:
            folder = f"{target.removeprefix('./').rstrip('/')}/"
            if not any(each.startswith(folder) for each in files):
                yield f"The link to {target!r} leads to no file of the skill."

"""Read skills: a file in TOML, or a folder with ``SKILL.md``; report all mistakes together."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from vibe_llms.configuration.definitions import is_plugin_name
from vibe_llms.exceptions import ConfigurationError, Finding
from vibe_llms.foundation.suggestions import suggest
from vibe_llms.instruments.prompts.prompt import Prompt
from vibe_llms.instruments.skills.files import SKILL_FILE
from vibe_llms.instruments.skills.skill import Skill
from vibe_llms.tables.annotations import survey_kinds, survey_required
from vibe_llms.tables.documents import Document, parse_document, read_bytes
from vibe_llms.tables.front_matter import split_front_matter
from vibe_llms.tables.reading import TableReader

SUFFIX: Final = ".toml"

_NOT_IN_FILE: Final = {
    *("name", "place", "folder", "license", "compatibility", "allowed_tools", "metadata"),
    "is_for_users",
}
"""Fields that are not read from a file in TOML."""


def read_skill(path: Path | str) -> Skill:
    """Read a skill.

    Args:
        path: A file in TOML, a folder with ``SKILL.md``, or that file.

    Raises:
        ConfigurationError: The file cannot be read, or is invalid; lists all mistakes.
    """
    path = Path(path)
    path = path / SKILL_FILE if path.is_dir() else path
    return parse_skill(read_bytes(path), path)


def parse_skill(raw: bytes, path: Path) -> Skill:
    """Create a skill from the content of its file.

    Raises:
        ConfigurationError: The file is invalid; lists all mistakes.
    """
    return _parse_folder(raw, path) if path.name == SKILL_FILE else _parse_table(raw, path)


def _parse_table(raw: bytes, path: Path) -> Skill:
    document = parse_document(raw, str(path))
    reader = document.produce_reader()
    if not is_plugin_name(path.stem):
        message = "The name of a skill file may contain only letters, digits, '_', '.' and '-'."
        reader.report((), message)
    kinds = {name: kind for name, kind in survey_kinds(Skill).items() if name not in _NOT_IN_FILE}
    values = reader.read_fields(kinds, document.tree, (), survey_required(Skill) - _NOT_IN_FILE)
    if "prompt" in values:
        _check_prompt(values["prompt"], values.get("values", {}), document, reader)
    reader.finish()
    return Skill(name=path.stem, place=str(path), **values)


def _check_prompt(
    prompt: str, values: Mapping[str, Any], document: Document, reader: TableReader
) -> None:
    """Check that the prompt can be rendered with the skill's values."""
    try:
        template = Prompt(prompt, name=document.place)
    except ConfigurationError as error:
        reader.findings += [_shift(finding, document) for finding in error.findings]
        return
    for name in sorted(template.required - values.keys()):
        reader.report(("prompt",), f"The variable {name!r} is missing: set it under [values].")
    for name in sorted(values.keys() - template.variables):
        suggestion = suggest(name, template.variables)
        reader.report(("values", name), f"The prompt does not use this value{suggestion}")


def _shift(finding: Finding, document: Document) -> Finding:
    """Convert a position in the prompt to a position in the file."""
    line, column = document.find_within(("prompt",), finding.line, finding.column)
    return attrs.evolve(finding, line=line, column=column)


def _parse_folder(raw: bytes, path: Path) -> Skill:
    """Read ``SKILL.md`` as other agents do: all but the description may be missing or invalid."""
    place = str(path)
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigurationError.at(place, f"{SKILL_FILE} must be UTF-8.") from error
    front = split_front_matter(text, place, is_lenient=True)
    fields, mistake = front.fields, ""
    if not front.is_present:
        mistake = "The front matter is missing: begin with `---`."
    elif not fields.get("description"):
        mistake = "description: It is missing. State what the skill does, and when to use it."
    elif not isinstance(fields["description"], str):
        mistake = "description: It must be a text."
    if mistake:
        raise ConfigurationError.at(place, mistake)
    metadata = fields.get("metadata", {})
    return Skill(
        name=path.absolute().parent.name,
        description=" ".join(fields["description"].split()),
        prompt=front.body.strip("\n"),
        place=place,
        folder=str(path.absolute().parent),
        license=_read_text(fields.get("license")),
        compatibility=_read_text(fields.get("compatibility")),
        allowed_tools=_read_tools(fields.get("allowed-tools", "")),
        metadata=metadata if isinstance(metadata, dict) else {},
        is_for_users=_is_yes(fields.get("disable-model-invocation")),
    )


def _read_text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _is_yes(value: object) -> bool:
    return isinstance(value, str) and value.lower() in ("true", "yes", "on")


def _read_tools(value: Any) -> tuple[str, ...]:
    """Return the names of tools: a list, or a text with spaces or commas between them."""
    if isinstance(value, list):
        return tuple(each for each in value if isinstance(each, str))
    names: list[str] = []
    depth, word = 0, ""
    for letter in f"{value} " if isinstance(value, str) else "":  # as "Bash(git add:*) Read"
        depth += (letter == "(") - (letter == ")")
        if depth <= 0 and letter in ", \n":
            names += [word] if word else []
            word = ""
        else:
            word += letter
    return tuple(names)

"""Reads a skill from its file, and finds all mistakes in it at once."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from vibe_llms.configuration.definitions import is_plugin_name
from vibe_llms.exceptions import ConfigurationError, Finding
from vibe_llms.instruments.prompts.prompt import Prompt
from vibe_llms.instruments.skills.skill import Skill
from vibe_llms.suggestions import suggest
from vibe_llms.tables.annotations import survey_kinds, survey_required
from vibe_llms.tables.documents import Document, parse_document, read_bytes
from vibe_llms.tables.reading import TableReader

_OURS: Final = {"name", "place"}
"""Fields of which the file says nothing."""


def read_skill(path: Path | str) -> Skill:
    """Reads a skill.

    Raises:
        ConfigurationError: With all the mistakes in the file, or why it cannot be read.
    """
    path = Path(path)
    return parse_skill(read_bytes(path), path)


def parse_skill(raw: bytes, path: Path) -> Skill:
    """Makes a skill of what its file holds.

    Raises:
        ConfigurationError: With all the mistakes in it.
    """
    document = parse_document(raw, str(path))
    reader = document.produce_reader()
    if not is_plugin_name(path.stem):
        message = "The name of a skill, its file's, has letters, digits, '_', '.', '-'."
        reader.report((), message)
    kinds = {name: kind for name, kind in survey_kinds(Skill).items() if name not in _OURS}
    values = reader.read_fields(kinds, document.tree, (), survey_required(Skill) - _OURS)
    if "prompt" in values:
        _check_prompt(values["prompt"], values.get("values", {}), document, reader)
    reader.finish()
    return Skill(name=path.stem, place=str(path), **values)


def _check_prompt(
    prompt: str, values: Mapping[str, Any], document: Document, reader: TableReader
) -> None:
    """Checks that the prompt can be rendered with the values beside it."""
    try:
        template = Prompt(prompt, name=document.place)
    except ConfigurationError as error:
        reader.findings += [_shift(finding, document) for finding in error.findings]
        return
    for name in sorted(template.required - values.keys()):
        reader.report(("prompt",), f"It needs {name!r}: give it a value under [values].")
    for name in sorted(values.keys() - template.variables):
        near = suggest(name, template.variables)
        reader.report(("values", name), f"The prompt does not use this value{near}")


def _shift(finding: Finding, document: Document) -> Finding:
    """Tells a place in the prompt as a place in the file."""
    line = document.find_line(("prompt",))
    begins_below = document.text.splitlines()[line - 1].rstrip().endswith(("'''", '"""'))
    if begins_below:
        return attrs.evolve(finding, line=line + finding.line)
    column = finding.column if finding.line > 1 else 0  # the key stands before it
    return attrs.evolve(finding, line=line + finding.line - 1, column=column)

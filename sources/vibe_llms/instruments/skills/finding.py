"""Find skills by their names: the user's own, the project's, and the built-in ones; read their
files, and report all mistakes of a file together.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import attrs

from vibe_llms.application import Application
from vibe_llms.configuration.classes import Configuration, Layer, TrustRequest
from vibe_llms.configuration.definitions import is_plugin_name
from vibe_llms.configuration.trust import grant_trust, is_trusted
from vibe_llms.exceptions import ConfigurationError, Finding, TrustError, UnknownNameError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.package_data import access_data
from vibe_llms.foundation.suggestions import find_near, suggest
from vibe_llms.instruments.prompts.prompt import Prompt
from vibe_llms.instruments.skills.skill import Skill
from vibe_llms.tables.annotations import survey_kinds, survey_required
from vibe_llms.tables.documents import Document, parse_document, read_bytes
from vibe_llms.tables.reading import TableReader

_NOT_IN_FILE: Final = {"name", "place"}
"""Fields that are not read from the file."""


def read_skill(path: Path | str) -> Skill:
    """Read a skill.

    Raises:
        ConfigurationError: The file cannot be read, or is invalid; lists all mistakes.
    """
    path = Path(path)
    return parse_skill(read_bytes(path), path)


def parse_skill(raw: bytes, path: Path) -> Skill:
    """Create a skill from the content of its file.

    Raises:
        ConfigurationError: The file is invalid; lists all mistakes.
    """
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


_FOLDER: Final = "skills"
_SUFFIX: Final = ".toml"


@frozen(kw_only=True)
class FoundSkill:
    """The file of a skill, which was found but not read yet.

    Attributes:
        name: The name under which it is found.
        path: The file.
        layer: The layer: ``USER``, ``PROJECT`` or ``DEFAULTS``.
    """

    name: str
    path: Path
    layer: Layer

    def read(self) -> Skill:
        """Read the file, for display only. To use a skill, call ``find_skill``, which checks trust.

        Raises:
            ConfigurationError: The file is invalid.
        """
        return read_skill(self.path)


def survey_skills(configuration: Configuration) -> tuple[FoundSkill, ...]:
    """List the skills, the user's own first. Of several with the same name, only the first."""
    found: dict[str, FoundSkill] = {}
    for layer, folder in _list_folders(configuration):
        for path in sorted(folder.glob(f"*{_SUFFIX}")) if folder.is_dir() else ():
            # The user's skills come first: a project cannot replace them.
            found.setdefault(path.stem, FoundSkill(name=path.stem, path=path, layer=layer))
    return tuple(found.values())


def find_skill(name: str, application: Application) -> Skill:
    """Find a skill by its name, or read it from a path.

    A skill in the project's folder was written by the folder's author. Before the first use of a
    skill, and after each change of its file, the user is asked to trust it.

    Args:
        name: A name such as ``reviewer``; or a path that ends in ``.toml``, which is read without
            a question.

    Raises:
        UnknownNameError: No skill has this name; lists the known names, the most similar first.
        TrustError: The skill is the project's, and the user does not trust it.
        ConfigurationError: The file is invalid.
    """
    if name.endswith(_SUFFIX):
        return read_skill(Path(name).expanduser())
    skills = {each.name: each for each in survey_skills(application.configuration)}
    found = skills.get(name)
    if found is None:
        known = find_near(name, skills) or sorted(skills)
        raise UnknownNameError(
            kind="skill",
            name=name,
            known=tuple(known),
            remedy="The path of a skill must end in .toml." if "/" in name else "",
        )
    # Read only once: if the file changes, the content in use is still the one that is trusted.
    raw = read_bytes(found.path)
    skill = parse_skill(raw, found.path)
    if found.layer is Layer.PROJECT:
        _ensure_trusted(skill, raw, found.path, application)
    return skill


def _ensure_trusted(skill: Skill, raw: bytes, path: Path, application: Application) -> None:
    request = TrustRequest(
        folder=path.resolve(),  # trust in a skill covers its file alone
        file=path,
        digest=hashlib.sha256(raw).hexdigest(),
        settings=(),
        data_directory=application.configuration.data_directory,
    )
    if is_trusted(request):
        return
    tools = ", ".join((*skill.ensembles, *skill.mcp)) or "no tools"
    question = (
        f"{path} comes with this folder, instructs the model and chooses {tools}. Its "
        f"description: {skill.description} Do you want to use it?"
    )
    if not application.plugins.consent.ask(f"skill:{request.folder}", question):
        raise TrustError(
            subject=f"skill:{request.folder}",
            detail=f"You have not agreed to the project's skill {skill.name!r}.",
            remedy=f"Read it; then pass its path: {path}.",
        )
    grant_trust(request)


def _list_folders(configuration: Configuration) -> Iterator[tuple[Layer, Path]]:
    files = {file.layer: file.path for file in configuration.files}
    for layer in (Layer.USER, Layer.PROJECT):
        if layer in files:
            yield layer, files[layer].parent / _FOLDER
    yield Layer.DEFAULTS, access_data(_FOLDER)

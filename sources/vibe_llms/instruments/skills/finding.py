"""Find skills by their names: the user's own, the project's, and the built-in ones."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import Final

from vibe_llms.application import Application
from vibe_llms.configuration.classes import Configuration, Layer, TrustRequest
from vibe_llms.configuration.definitions import is_plugin_name
from vibe_llms.configuration.paths import find_project_folder
from vibe_llms.configuration.trust import grant_trust, is_trusted
from vibe_llms.exceptions import TrustError, UnknownNameError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.files import expand_home, resolve_links
from vibe_llms.foundation.package_data import access_data
from vibe_llms.foundation.suggestions import find_near
from vibe_llms.instruments.skills.files import SKILL_FILE, list_files, measure_folder
from vibe_llms.instruments.skills.reading import SUFFIX, parse_skill, read_skill
from vibe_llms.instruments.skills.settings import read_settings
from vibe_llms.instruments.skills.skill import Skill
from vibe_llms.tables.documents import read_bytes

_FOLDER: Final = "skills"
_USERS: Final = (".agents", ".claude", ".codex")
"""Folders of other agents in the user's home that have skills."""
_PROJECTS: Final = (".vibe-llms", ".agents", ".claude")
"""Folders in a project that have skills."""


@frozen
class FoundSkill:
    """The file of a skill, which was found but not read yet.

    Attributes:
        name: The name under which it is found: that of the file in TOML or of the folder.
        path: The file: in TOML, or ``SKILL.md``.
        layer: The layer: ``USER``, ``PROJECT``, ``DEFAULTS``, or ``COMMAND_LINE`` for a path.
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
        for name, path in _survey_folder(folder):
            # The user's skills come first: a project cannot replace them.
            found.setdefault(name, FoundSkill(name, path, layer))
    return tuple(found.values())


def survey_misnamed(configuration: Configuration) -> Iterator[Path]:
    """Yield the folders that have ``SKILL.md`` and no valid name, so that they are not found."""
    for _, folder in _list_folders(configuration):
        with suppress(OSError):  # it does not exist
            for path in sorted(folder.iterdir()):
                if not is_plugin_name(path.name) and (path / SKILL_FILE).is_file():
                    yield path


def _survey_folder(folder: Path) -> Iterator[tuple[str, Path]]:
    with suppress(OSError):  # it does not exist
        for path in sorted(folder.iterdir()):
            if path.suffix == SUFFIX:
                yield path.stem, path
            elif is_plugin_name(path.name) and (path / SKILL_FILE).is_file():
                yield path.name, path / SKILL_FILE


def find_skill(name: str, application: Application) -> Skill:
    """Find a skill by its name, or read it from a path.

    A skill in the project's folder was written by the folder's author. Before the first use of a
    skill, and after each change of its files, the user is asked to trust it.

    Args:
        name: A name such as ``reviewer``; or a path, which is read without a question: it ends in
            ``.toml``, or is that of a folder with ``SKILL.md``.

    Raises:
        UnknownNameError: No skill has this name; lists the known names, the most similar first.
        TrustError: The skill is the project's, and the user does not trust it.
        ConfigurationError: The file is invalid.
    """
    return load_found(locate_skill(name, application.configuration), application)


def locate_skill(name: str, configuration: Configuration) -> FoundSkill:
    """Find a skill by its name or path, without reading it.

    Raises:
        UnknownNameError: As :func:`find_skill`.
    """
    path = expand_home(name)
    if "/" in name and (path / SKILL_FILE).is_file():
        path = path / SKILL_FILE
    if path.name == SKILL_FILE:
        return FoundSkill(path.absolute().parent.name, path, Layer.COMMAND_LINE)
    if path.suffix == SUFFIX:
        return FoundSkill(path.stem, path, Layer.COMMAND_LINE)
    skills = {each.name: each for each in survey_skills(configuration)}
    if name not in skills:
        known = find_near(name, skills) or sorted(skills)
        rule = f"The path of a skill must end in .toml, or be a folder with {SKILL_FILE}."
        raise UnknownNameError(
            kind="skill", name=name, known=tuple(known), remedy=rule if "/" in name else ""
        )
    return skills[name]


def load_found(found: FoundSkill, application: Application, *, asks: bool = True) -> Skill:
    """Read a skill that was found, and ensure that its user trusts it.

    Args:
        asks: Whether the user is asked about a skill that is not trusted yet.

    Raises:
        TrustError: The skill is the project's, and the user does not trust it.
        ConfigurationError: The file is invalid.
    """
    # Read only once: if the file changes, the content in use is still the one that is trusted.
    raw = read_bytes(found.path)
    skill = parse_skill(raw, found.path)
    if found.layer is Layer.PROJECT:
        digest = hashlib.sha256(raw)
        if skill.folder:
            digest.update(measure_folder(Path(skill.folder)))
        _ensure_trusted(found, skill, digest.hexdigest(), application, asks=asks)
    return skill


def _ensure_trusted(
    found: FoundSkill, skill: Skill, digest: str, application: Application, *, asks: bool
) -> None:
    path = found.path
    request = TrustRequest(
        folder=resolve_links(path),  # trust in a skill covers its files alone
        file=path,
        digest=digest,
        settings=(),
        data_directory=application.configuration.data_directory,
    )
    if is_trusted(request):
        return
    tools = ", ".join((*skill.ensembles, *skill.mcp)) or "no tools"
    if skill.folder:
        tools += f", and has {len(list_files(Path(skill.folder)))} files that a model may use"
    question = (
        f"{path} comes with this folder, instructs the model and chooses {tools}. Its "
        f"description: {skill.description} Do you want to use it?"
    )
    # An answer counts for these files alone: after a change, the question is asked again.
    subject = f"skill:{request.folder}:{digest}"
    if not asks or not application.plugins.consent.ask(subject, question):
        # The author of the skill chooses its texts, so that only its checked name is used.
        raise TrustError(
            subject=subject,
            detail=f"You have not agreed to the project's skill {found.name!r}.",
            remedy=f"Read it; then run `vibe skills trust {quote(found.name)}`, or pass its path: "
            f"{str(path)!r}.",
        )
    grant_trust(request)


def _list_folders(configuration: Configuration) -> Iterator[tuple[Layer, Path]]:
    """Yield the folders that have skills, each once."""
    files = {file.layer: file.path for file in configuration.files}
    configured = [expand_home(each) for each in read_settings(configuration).folders]
    project = find_project_folder(configuration)
    users = [files[Layer.USER].parent / _FOLDER] if Layer.USER in files else []
    users += [each for each in configured if each.is_absolute()]
    users += [Path.home() / name / _FOLDER for name in _USERS]
    # A relative folder is another one in each project, and so not the user's own.
    projects = [Path.cwd() / each for each in configured if not each.is_absolute()]
    projects += [project / name / _FOLDER for name in _PROJECTS]
    listed = [(Layer.USER, each) for each in users] + [(Layer.PROJECT, each) for each in projects]
    known: set[Path] = set()
    for layer, folder in listed:
        if (resolved := resolve_links(folder)) not in known:
            known.add(resolved)
            yield layer, folder
    yield Layer.DEFAULTS, access_data(_FOLDER)

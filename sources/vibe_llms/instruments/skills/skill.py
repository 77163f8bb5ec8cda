"""A skill, and the tools that it uses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any, Final, Unpack

import attrs

from vibe_llms.application import Application
from vibe_llms.configuration.classes import Configuration, Layer, Setting, Source
from vibe_llms.configuration.definitions import ADDRESS, NAMES
from vibe_llms.configuration.trust import is_harmless
from vibe_llms.exceptions import ConfigurationError, Finding, RequestError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonObject, JsonValue
from vibe_llms.foundation.suggestions import suggest
from vibe_llms.instruments.prompts.prompt import Prompt
from vibe_llms.invocables.ensembles import Ensemble
from vibe_llms.tables.kinds import Kind

if TYPE_CHECKING:
    from vibe_llms.invocables.mcp.ensembles import Answerers


def _check_model(address: str) -> str:
    if not is_harmless(Setting(("model",), address, Source(Layer.PROJECT)), {}):
        raise ValueError("A skill may choose a model by name, but not by file.")
    return address


def _remove_duplicates(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


_MODEL: Final = Kind(ADDRESS.words, ADDRESS.is_valid, _check_model)


@frozen(kw_only=True, slots=False)
class Skill:
    """A persona or a way of working: read by ``read_skill``, found by ``find_skill``.

    A skill is a file in TOML with a template and settings, or a folder with ``SKILL.md``, as other
    agents read it. The user chooses it for a conversation, or the model loads it.

    Attributes:
        name: The name of its file or folder, under which it is found.
        description: Purpose of the skill, in a sentence or two.
        prompt: A template of instructions, see :class:`Prompt`; in a folder, a text.
        values: Values for the variables of the prompt.
        model: The address of a model; empty for the configured model.
        controls: Parameters of the requests.
        ensembles: Names of configured ensembles.
        mcp: Names of configured MCP servers.
        schema: A JSON Schema to which answers must conform.
        place: The path of its file.
        folder: The path of its folder; empty for a file in TOML.
        license: License of a folder.
        compatibility: Requirements of a folder, such as programs.
        allowed_tools: Tools that a folder recommends. They are not allowed by that.
        metadata: Further fields of a folder.
        is_for_users: True if the model may not load it by itself.
    """

    name: str
    description: str
    prompt: str
    values: Mapping[str, Any] = attrs.field(factory=dict)
    model: Annotated[str, _MODEL] = ""
    controls: Mapping[str, JsonValue] = attrs.field(factory=dict)
    ensembles: Annotated[tuple[str, ...], NAMES] = attrs.field(
        default=(), converter=_remove_duplicates
    )
    mcp: Annotated[tuple[str, ...], NAMES] = attrs.field(default=(), converter=_remove_duplicates)
    schema: JsonObject | None = None
    place: str = ""
    folder: str = ""
    license: str = ""
    compatibility: str = ""
    allowed_tools: tuple[str, ...] = ()
    metadata: Mapping[str, Any] = attrs.field(factory=dict)
    is_for_users: bool = False

    @cached_property
    def template(self) -> Prompt:
        """The prompt, ready to be rendered."""
        return Prompt(self.prompt, name=self.place or self.name)

    def render(self, /, **values: Any) -> str:
        """Return the instructions. Those of a folder end with its path and its files.

        Args:
            values: Override those of the skill.

        Raises:
            RequestError: A value is unknown, or the template cannot process it.
            LimitError: The result is too large.
        """
        if self.folder:
            if values:
                detail = f"The skill {self.name!r} has no variables: it is a text."
                raise RequestError(path=next(iter(values)), detail=detail)
            return _compose_folder(self)
        return self.template.render(**{**self.values, **values})


def _compose_folder(skill: Skill) -> str:
    """Return the text of a skill, with a list of its other files."""
    from vibe_llms.instruments.skills.files import SKILL_FILE, list_files

    files = [each for each in list_files(Path(skill.folder)) if each != SKILL_FILE]
    if not files:
        return skill.prompt
    shown = "\n".join(f"- {each}" for each in files)
    lines = [skill.prompt, "", f"Files of the skill {skill.name!r}, in {skill.folder}:", shown]
    lines.append(f"Read them with read_skill_file(skill={skill.name!r}, path=…).")
    if any(each.startswith("scripts/") for each in files):
        lines.append(f"Run scripts with run_command: cd {quote(skill.folder)} && …")
    return "\n".join(lines)


def ensure_configured(skill: Skill, configuration: Configuration) -> None:
    """Refuse a skill with tools that its user has not configured.

    Raises:
        ConfigurationError: Lists all these tools, with the most similar names.
    """
    servers = configuration.servers
    findings = [
        *_find_unknown(skill, "ensemble", skill.ensembles, configuration.ensembles),
        *_find_unknown(skill, "MCP server", skill.mcp, servers),  # a path would start a program
    ]
    if findings:
        raise ConfigurationError(findings=tuple(findings))


async def produce_tools(
    skill: Skill, application: Application, **answerers: Unpack[Answerers]
) -> tuple[Ensemble, ...]:
    """Create the ensembles that a skill uses, not connected.

    This grants no permissions: the ensembles are those of the user's configuration.

    Args:
        answerers: Answer the requests of MCP servers; see ``Application.produce_mcp_ensembles``.

    Raises:
        ConfigurationError: Some are not configured.
        ConverseError: An ensemble cannot be loaded.
    """
    ensure_configured(skill, application.configuration)
    ensembles = await application.produce_ensembles(skill.ensembles)
    return (*ensembles, *await application.produce_mcp_ensembles(skill.mcp, **answerers))


def _find_unknown(
    skill: Skill, kind: str, names: Iterable[str], known: Iterable[str]
) -> list[Finding]:
    known = list(known)
    return [
        Finding(
            place=skill.place or skill.name,
            message=f"Unknown {kind} {name!r} in your configuration{suggest(name, known)}",
        )
        for name in names
        if name not in known
    ]

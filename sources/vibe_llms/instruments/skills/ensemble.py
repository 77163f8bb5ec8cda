"""The ensemble ``skills``: a model loads skills, and reads their files, when it needs them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs

from vibe_llms.exceptions import ConfigurationError, EnsembleError, TrustError
from vibe_llms.foundation.suggestions import end_among
from vibe_llms.instruments.skills.files import SKILL_FILE, read_text
from vibe_llms.instruments.skills.finding import FoundSkill, load_found, survey_skills
from vibe_llms.instruments.skills.settings import SkillsSettings
from vibe_llms.instruments.skills.skill import Skill
from vibe_llms.invocables.contexts import InvocationContext
from vibe_llms.invocables.deduplicators import ByArgument
from vibe_llms.invocables.invokers import Effect, Invoker, produce_invoker
from vibe_llms.invocables.refusals import Refusal, explain_refusals
from vibe_llms.invocables.shipped.granted import GrantedEnsemble

if TYPE_CHECKING:
    from vibe_llms.application import Application

_LOGGER: Final = logging.getLogger("vibe_llms.instruments.skills")

LIST_CHARACTERS: Final = 8_000
"""Maximum length of the list of skills, which is in every request."""

_UNTRUSTED: Final = "a skill of this project; the user is asked before it is loaded"

_SHORTEST: Final = 40
"""Length to which descriptions are cut if the list is too long."""


class SkillsEnsemble(GrantedEnsemble):
    """Skills for a model: it sees their names and descriptions, and loads the rest.

    Args:
        settings: Further folders.
        application: Provides the configuration, and asks the user whether to trust a project's
            skills.
    """

    settings_class = SkillsSettings

    def __init__(self, settings: SkillsSettings, application: Application) -> None:
        super().__init__(settings.name)
        self.settings = settings
        self._application = application
        self._skills: Mapping[str, tuple[FoundSkill, str]] = {}

    async def connect(self) -> None:
        """Find the skills, and leave out invalid ones. Nothing is asked yet."""
        self._skills = await asyncio.to_thread(self._find_all)

    def _find_all(self) -> dict[str, tuple[FoundSkill, str]]:
        skills: dict[str, tuple[FoundSkill, str]] = {}
        for found in survey_skills(self._application.configuration):
            try:
                description = self._describe(found)
            except ConfigurationError as error:
                _LOGGER.warning("The skill %r is left out: %s", found.name, error)
            else:
                if description is not None:
                    skills[found.name] = (found, description)
        return skills

    def _describe(self, found: FoundSkill) -> str | None:
        """Return the description that a model sees; ``None`` if the model may not load the skill.

        Raises:
            ConfigurationError: The skill is invalid.
        """
        try:
            skill = load_found(found, self._application, asks=False)
            description = skill.description
        except TrustError:  # the project's description must not instruct the model yet
            skill = found.read()
            description = _UNTRUSTED
        return None if skill.is_for_users else description

    async def survey(self) -> Sequence[Invoker]:
        """Return the invokers; none without skills."""
        if not self._skills:
            return ()
        load = produce_invoker(
            explain_refusals(self.load_skill),
            effect=Effect.PURE,
            deduplicator=ByArgument("name", "skill"),
        )
        listed = _list_skills({name: text for name, (_, text) in self._skills.items()})
        load = attrs.evolve(load, description=f"{load.description}\n\nSkills:\n{listed}")
        if not any(found.path.name == SKILL_FILE for found, _ in self._skills.values()):
            return (load,)
        read = produce_invoker(explain_refusals(self.read_skill_file), effect=Effect.PURE)
        return (load, read)

    def load_skill(self, name: str) -> str:
        """Load the instructions of a skill. Do this before you begin a task that fits its
        description. Instructions of the user come first.

        Args:
            name: Name of the skill.
        """
        return self._access(name).render()

    def read_skill_file(self, skill: str, path: str, context: InvocationContext) -> str:
        """Read a text file of a skill, such as a reference.

        Args:
            skill: Name of the skill.
            path: Path of the file in the skill's folder, such as references/forms.md.
        """
        folder = self._access(skill).folder
        if not folder:
            raise Refusal(f"The skill {skill!r} has no files. Load it with load_skill.")
        try:
            return read_text(Path(folder), path, context)
        except EnsembleError as error:
            raise Refusal(str(error)) from error

    def _access(self, name: str) -> Skill:
        """Read a skill again: a project's may have changed since the user has agreed to it."""
        if name not in self._skills:
            raise Refusal(f"Unknown skill {name!r}{end_among(name, self._skills)}")
        # The errors may quote the skill, which must not instruct the model before it is trusted.
        try:
            skill = load_found(self._skills[name][0], self._application)
        except TrustError as error:
            raise Refusal(f"The user has not agreed to the project's skill {name!r}.") from error
        except ConfigurationError as error:
            _LOGGER.warning("The skill %r cannot be loaded: %s", name, error)
            raise Refusal(f"The skill {name!r} is invalid. The user can validate it.") from error
        if skill.is_for_users:
            raise Refusal(f"Only the user may choose the skill {name!r}.")
        return skill


def _list_skills(descriptions: Mapping[str, str]) -> str:
    """Return one line for each skill; shorten the descriptions if there are too many."""
    limit = max(_SHORTEST, LIST_CHARACTERS // max(1, len(descriptions)))
    is_long = sum(map(len, descriptions.values())) > LIST_CHARACTERS
    lines: list[str] = []
    size = 0
    for name, description in descriptions.items():
        text = f"{description[:limit]}…" if is_long and len(description) > limit else description
        size += len(name) + len(text)
        if size > 2 * LIST_CHARACTERS:
            lines.append(f"[{len(descriptions) - len(lines)} more skills are not listed]")
            break
        lines.append(f"- {name}: {text}")
    return "\n".join(lines)

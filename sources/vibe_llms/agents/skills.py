"""Skills that runs may use: listed for menus, and applied to the request for a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from shlex import quote
from typing import TYPE_CHECKING, Any, Final, Literal

import attrs

from vibe_llms.agents.run_specs import RunRules, RunSpec
from vibe_llms.application import Application
from vibe_llms.configuration.classes import Layer
from vibe_llms.exceptions import (
    ConfigurationError,
    ConverseError,
    Finding,
    TrustError,
    UnknownNameError,
)
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.suggestions import find_near
from vibe_llms.messages.canisters import AnyCanister, SupervisorCanister

if TYPE_CHECKING:
    from vibe_llms.instruments.skills import FoundSkill, Skill

_SOURCES: Final[Mapping[Layer, Literal["user", "project", "built-in"]]] = {
    Layer.USER: "user",
    Layer.PROJECT: "project",
    Layer.DEFAULTS: "built-in",
}


@frozen(kw_only=True)
class SkillOffer:
    """A skill that runs may use.

    Attributes:
        name: Name for a run's specification.
        description: Purpose of the skill; empty for a project's skill that is not trusted.
        source: Origin of the skill.
        ensembles: Ensembles of tools that the skill adds to the run.
        problem: Reason why runs cannot use the skill; empty if they can.
    """

    name: str
    description: str
    source: Literal["user", "project", "built-in"]
    ensembles: tuple[str, ...] = ()
    problem: str = ""


def survey_skill_offers(application: Application, rules: RunRules) -> list[SkillOffer]:
    """List the skills of this machine. Does file work."""
    from vibe_llms.instruments.skills import survey_skills

    return [_offer(each, application, rules) for each in survey_skills(application.configuration)]


def _offer(found: FoundSkill, application: Application, rules: RunRules) -> SkillOffer:
    source = _SOURCES[found.layer]
    try:
        skill = _load(found, application)
    except ConfigurationError as error:
        problem = error.findings[0].message
        return SkillOffer(name=found.name, description="", source=source, problem=problem)
    ensembles = _survey_ensembles(skill)
    missing = [each for each in ensembles if not _is_known(each, application, rules)]
    return SkillOffer(
        name=found.name,
        description=skill.description,
        source=source,
        ensembles=ensembles,
        problem=f"Runs may not use its tools: {', '.join(missing)}." if missing else "",
    )


def apply_skills(
    spec: RunSpec, canisters: Sequence[AnyCanister], application: Application
) -> tuple[RunSpec, Sequence[AnyCanister]]:
    """Add the skills of a specification to it and to the first messages. Does file work.

    The instructions of the skills come first. Their model, controls and schema are used unless the
    specification has its own; of several skills, the first one counts.

    Raises:
        UnknownNameError: A skill does not exist. Paths are not accepted.
        ConfigurationError: A skill is invalid or is not trusted, or the run is a flow.
    """
    if not spec.skills:
        return spec, canisters
    if spec.task is not None:
        raise _refuse("Flows have prompts of their own; pass no skills.")
    skills = [_find(name, application) for name in dict.fromkeys(spec.skills)]
    controls: dict[str, Any] = {}
    for skill in reversed(skills):
        controls |= skill.controls
    ensembles = list(spec.ensembles)
    for skill in skills:
        ensembles += _survey_ensembles(skill)
    names = tuple(dict.fromkeys(ensembles))
    schemas = (each.schema for each in skills if each.schema)
    completed = attrs.evolve(
        spec,
        model=spec.model or next((each.model for each in skills if each.model), ""),
        ensembles=names,
        controls={**controls, **spec.controls},
        schema=spec.schema or next(schemas, None),
    )
    instructions = "\n\n".join(each.render().strip() for each in skills)
    return completed, (SupervisorCanister(instructions), *canisters)


def _find(name: str, application: Application) -> Skill:
    """Read a skill by its name; a path could be any file of this machine."""
    from vibe_llms.instruments.skills import survey_skills

    known = {each.name: each for each in survey_skills(application.configuration)}
    if name not in known:
        names = find_near(name, known) or sorted(known)
        raise UnknownNameError(kind="skill", name=name, known=tuple(names))
    return _load(known[name], application)


def _load(found: FoundSkill, application: Application) -> Skill:
    """Read a skill. Its errors name files of this machine, so callers get other words.

    Raises:
        ConfigurationError: The skill is invalid or is not trusted.
    """
    from vibe_llms.instruments.skills.finding import load_found

    name = quote(found.name)
    try:
        skill = load_found(found, application, asks=False)
        skill.render()
    except TrustError as error:
        remedy = f"Read it, then run `vibe skills trust {name}` on the daemon's machine."
        raise _refuse(f"The project's skill {found.name!r} is not trusted. {remedy}") from error
    except (ConverseError, OSError) as error:
        remedy = f"Run `vibe skills validate {name}` on the daemon's machine."
        raise _refuse(f"The skill {found.name!r} is invalid. {remedy}") from error
    return skill


def _refuse(message: str) -> ConfigurationError:
    return ConfigurationError(findings=(Finding(place="run.skills", message=message),))


def _survey_ensembles(skill: Skill) -> tuple[str, ...]:
    return skill.ensembles + skill.mcp


def _is_known(name: str, application: Application, rules: RunRules) -> bool:
    configuration = application.configuration
    if rules.ensembles is not None:
        return name in rules.ensembles
    return name in configuration.ensembles or name in configuration.servers

"""Skills: instructions with settings in a file, or with files in a folder, that can be shared.

May import the prompts and the configuration. Grants no permissions: a skill can use only tools that
its user has configured, and their calls still require approvals.
"""

from __future__ import annotations

from vibe_llms.foundation.lazy_imports import produce_attribute_access

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vibe_llms.instruments.skills.finding import (
        FoundSkill,
        find_skill,
        survey_skills,
    )
    from vibe_llms.instruments.skills.reading import read_skill
    from vibe_llms.instruments.skills.skill import Skill, ensure_configured, produce_tools

_MODULES = {
    "FoundSkill": "finding",
    "Skill": "skill",
    "ensure_configured": "skill",
    "find_skill": "finding",
    "produce_tools": "skill",
    "read_skill": "reading",
    "survey_skills": "finding",
}
__all__ = [
    "FoundSkill",
    "Skill",
    "ensure_configured",
    "find_skill",
    "produce_tools",
    "read_skill",
    "survey_skills",
]
__getattr__, __dir__ = produce_attribute_access(__name__, _MODULES)

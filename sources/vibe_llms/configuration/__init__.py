"""What the user wrote: shipped defaults, files, environment and command line, merged.

Each value knows the layer, file and line it came from; mistakes are reported all at once.
May import the exceptions and the shipped data's place. It refuses to know what a provider,
a model or a control is: it carries their values and checks only its own closed table.
Importing it reads neither files nor environment.
"""

from __future__ import annotations

from vibe_llms.laziness import produce_attribute_access

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vibe_llms.configuration.classes import (
        Configuration,
        ConfigurationFile,
        Layer,
        ModelOverride,
        PluginEntry,
        Setting,
        Source,
        TrustRequest,
    )
    from vibe_llms.configuration.definitions import SETTINGS, Definition
    from vibe_llms.configuration.explanations import Explanation, explain_configuration
    from vibe_llms.configuration.sources import load_configuration
    from vibe_llms.configuration.trust import ask_for_trust, grant_trust, is_trusted, revoke_trust

_HOMES = {
    "SETTINGS": "definitions",
    "Configuration": "classes",
    "ConfigurationFile": "classes",
    "Definition": "definitions",
    "Explanation": "explanations",
    "Layer": "classes",
    "ModelOverride": "classes",
    "PluginEntry": "classes",
    "Setting": "classes",
    "Source": "classes",
    "TrustRequest": "classes",
    "ask_for_trust": "trust",
    "explain_configuration": "explanations",
    "grant_trust": "trust",
    "is_trusted": "trust",
    "load_configuration": "sources",
    "revoke_trust": "trust",
}
__all__ = [  # noqa: RUF022 - in the order in which a reader meets them
    "load_configuration",
    "Configuration",
    "Setting",
    "Source",
    "Layer",
    "PluginEntry",
    "ModelOverride",
    "ConfigurationFile",
    "SETTINGS",
    "Definition",
    "Explanation",
    "explain_configuration",
    "TrustRequest",
    "ask_for_trust",
    "grant_trust",
    "is_trusted",
    "revoke_trust",
]
__getattr__, __dir__ = produce_attribute_access(__name__, _HOMES)

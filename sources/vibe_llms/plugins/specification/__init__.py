"""Every hook that a plugin can implement, and what the hooks return.

A plugin is a module that the configuration names. It implements hooks as plain functions
that carry the mark :data:`vibe_llms.plugins.markers.hook`; it registers nothing, and being
imported has no effect beyond defining them. Hooks return *specifications*: small frozen
values with a name and, where something is to be made, a factory. So asking a plugin what it
has is cheap, and what it has is made only when somebody uses it. No hook runs per token.

A plugin that raises, or returns something else than is written here, is named and set aside;
all other plugins go on.
"""

from __future__ import annotations

from vibe_llms.plugins.specification.conversations import (
    ExporterSpecification,
    ImporterSpecification,
    StoreContext,
    StoreSpecification,
)
from vibe_llms.plugins.specification.hooks import (
    ALWAYS_IN_USE,
    HOOKS,
    survey_approvers,
    survey_commands,
    survey_ensembles,
    survey_exporters,
    survey_importers,
    survey_listeners,
    survey_model_attributes,
    survey_providers,
    survey_reactors,
    survey_stores,
    survey_transports,
)
from vibe_llms.plugins.specification.models import (
    ANY_NAME,
    ModelAttributesSpecification,
    ProviderContext,
    ProviderSpecification,
    TransportContext,
    TransportSpecification,
)
from vibe_llms.plugins.specification.runs import (
    ApproverContext,
    ApproverSpecification,
    EnsembleContext,
    EnsembleSpecification,
    ListenerSpecification,
    ReactorsSpecification,
)
from vibe_llms.plugins.specification.users import (
    CommandSpecification,
    Consent,
    Progress,
)

__all__ = [
    "ALWAYS_IN_USE",
    "ANY_NAME",
    "HOOKS",
    "ApproverContext",
    "ApproverSpecification",
    "CommandSpecification",
    "Consent",
    "EnsembleContext",
    "EnsembleSpecification",
    "ExporterSpecification",
    "ImporterSpecification",
    "ListenerSpecification",
    "ModelAttributesSpecification",
    "Progress",
    "ProviderContext",
    "ProviderSpecification",
    "ReactorsSpecification",
    "StoreContext",
    "StoreSpecification",
    "TransportContext",
    "TransportSpecification",
    "survey_approvers",
    "survey_commands",
    "survey_ensembles",
    "survey_exporters",
    "survey_importers",
    "survey_listeners",
    "survey_model_attributes",
    "survey_providers",
    "survey_reactors",
    "survey_stores",
    "survey_transports",
]

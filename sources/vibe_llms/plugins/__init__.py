"""Plugins: the hooks for extensions, and the loading of their implementations.

:mod:`~vibe_llms.plugins.specification` and :mod:`~vibe_llms.plugins.markers` are at the bottom, so
that every plugin, including the shipped ones, can import them; they import nothing of this package
except for type checkers. The rest is above the providers, and imports the configuration and the
models. It must not know any plugin by name: the configuration names them all. Listing the plugins
imports none.
"""

from __future__ import annotations

from vibe_llms.foundation.lazy_imports import produce_attribute_access

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vibe_llms.plugins.discovery import load_provider
    from vibe_llms.plugins.manager import PluginManager
    from vibe_llms.plugins.markers import hook
    from vibe_llms.plugins.specification.authorizers import AuthorizerSpecification
    from vibe_llms.plugins.specification.conversations import (
        ExporterSpecification,
        ImporterSpecification,
        StoreContext,
        StoreSpecification,
    )
    from vibe_llms.plugins.specification.daemons import Arrival, AuthorizerContext, Demand
    from vibe_llms.plugins.specification.flows import (
        Predicate,
        PredicateContext,
        PredicateSpecification,
    )
    from vibe_llms.plugins.specification.guards import (
        Guard,
        GuardContext,
        GuardRefusal,
        GuardSpecification,
        Inspection,
        Redaction,
    )
    from vibe_llms.plugins.specification.models import (
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
    from vibe_llms.plugins.specification.users import CommandSpecification, Consent, Progress

_MODULES = {
    "ApproverContext": "specification.runs",
    "ApproverSpecification": "specification.runs",
    "Arrival": "specification.daemons",
    "AuthorizerContext": "specification.daemons",
    "AuthorizerSpecification": "specification.authorizers",
    "CommandSpecification": "specification.users",
    "Consent": "specification.users",
    "Demand": "specification.daemons",
    "EnsembleContext": "specification.runs",
    "EnsembleSpecification": "specification.runs",
    "ExporterSpecification": "specification.conversations",
    "Guard": "specification.guards",
    "GuardContext": "specification.guards",
    "GuardRefusal": "specification.guards",
    "GuardSpecification": "specification.guards",
    "ImporterSpecification": "specification.conversations",
    "Inspection": "specification.guards",
    "ListenerSpecification": "specification.runs",
    "ModelAttributesSpecification": "specification.models",
    "PluginManager": "manager",
    "Predicate": "specification.flows",
    "PredicateContext": "specification.flows",
    "PredicateSpecification": "specification.flows",
    "Progress": "specification.users",
    "ProviderContext": "specification.models",
    "ProviderSpecification": "specification.models",
    "ReactorsSpecification": "specification.runs",
    "Redaction": "specification.guards",
    "StoreContext": "specification.conversations",
    "StoreSpecification": "specification.conversations",
    "TransportContext": "specification.models",
    "TransportSpecification": "specification.models",
    "hook": "markers",
    "load_provider": "discovery",
}
__all__ = [
    "ApproverContext",
    "ApproverSpecification",
    "Arrival",
    "AuthorizerContext",
    "AuthorizerSpecification",
    "CommandSpecification",
    "Consent",
    "Demand",
    "EnsembleContext",
    "EnsembleSpecification",
    "ExporterSpecification",
    "Guard",
    "GuardContext",
    "GuardRefusal",
    "GuardSpecification",
    "ImporterSpecification",
    "Inspection",
    "ListenerSpecification",
    "ModelAttributesSpecification",
    "PluginManager",
    "Predicate",
    "PredicateContext",
    "PredicateSpecification",
    "Progress",
    "ProviderContext",
    "ProviderSpecification",
    "ReactorsSpecification",
    "Redaction",
    "StoreContext",
    "StoreSpecification",
    "TransportContext",
    "TransportSpecification",
    "hook",
    "load_provider",
]
__getattr__, __dir__ = produce_attribute_access(__name__, _MODULES)

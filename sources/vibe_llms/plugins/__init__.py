"""How others extend vibe-llms: the hooks, and the loading of the plugins that implement them.

:mod:`~vibe_llms.plugins.specification` and :mod:`~vibe_llms.plugins.markers` lie at the
bottom, so that every plugin, what ships included, can import them; they import nothing of
ours except for type checkers. The rest lies above the providers, and imports the
configuration and the models. It refuses to know any plugin by name: the configuration names
them all. Listing the plugins imports none.
"""

from __future__ import annotations

from vibe_llms.laziness import produce_attribute_access

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vibe_llms.plugins.discovery import load_provider
    from vibe_llms.plugins.manager import PluginManager
    from vibe_llms.plugins.markers import hook
    from vibe_llms.plugins.specification import (
        ApproverContext,
        ApproverSpecification,
        CommandSpecification,
        Consent,
        EnsembleContext,
        EnsembleSpecification,
        ExporterSpecification,
        ImporterSpecification,
        ListenerSpecification,
        ModelAttributesSpecification,
        Progress,
        ProviderContext,
        ProviderSpecification,
        ReactorsSpecification,
        StoreContext,
        StoreSpecification,
        TransportContext,
        TransportSpecification,
    )

_HOMES = {
    "ApproverContext": "specification",
    "ApproverSpecification": "specification",
    "CommandSpecification": "specification",
    "Consent": "specification",
    "EnsembleContext": "specification",
    "EnsembleSpecification": "specification",
    "ExporterSpecification": "specification",
    "ImporterSpecification": "specification",
    "ListenerSpecification": "specification",
    "ModelAttributesSpecification": "specification",
    "PluginManager": "manager",
    "Progress": "specification",
    "ProviderContext": "specification",
    "ProviderSpecification": "specification",
    "ReactorsSpecification": "specification",
    "StoreContext": "specification",
    "StoreSpecification": "specification",
    "TransportContext": "specification",
    "TransportSpecification": "specification",
    "hook": "markers",
    "load_provider": "discovery",
}
__all__ = [
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
    "PluginManager",
    "Progress",
    "ProviderContext",
    "ProviderSpecification",
    "ReactorsSpecification",
    "StoreContext",
    "StoreSpecification",
    "TransportContext",
    "TransportSpecification",
    "hook",
    "load_provider",
]
__getattr__, __dir__ = produce_attribute_access(__name__, _HOMES)

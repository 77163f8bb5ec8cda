"""A configured plugin as a listing shows it."""

from __future__ import annotations

import enum

from vibe_llms.configuration.classes import PluginEntry
from vibe_llms.foundation.attrs_classes import frozen


class PluginState(enum.StrEnum):
    """How far a configured plugin is from being used."""

    AVAILABLE = "available"
    LOADED = "loaded"
    DISABLED = "disabled"
    UNTRUSTED = "untrusted"
    NOT_INSTALLED = "not installed"
    FAILED = "failed"


@frozen(kw_only=True)
class PluginListing:
    """A plugin as a listing shows it.

    Attributes:
        entry: What the configuration says of it, and where: name, module, package, source.
        state: How far it is from being used.
        reason: What went wrong, in one line; empty where nothing did.
    """

    entry: PluginEntry
    state: PluginState
    reason: str = ""

    @property
    def is_provider(self) -> bool:
        """Whether it is configured as a provider."""
        return self.entry.table == "providers"

    @property
    def is_usable(self) -> bool:
        """Whether it can be used without asking anybody for anything."""
        return self.state in (PluginState.AVAILABLE, PluginState.LOADED)

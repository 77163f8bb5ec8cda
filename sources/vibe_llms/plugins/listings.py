"""Listings of configured plugins: the entry and the state of each."""

from __future__ import annotations

import enum

from vibe_llms.configuration.classes import PluginEntry
from vibe_llms.foundation.attrs_classes import frozen


class PluginState(enum.StrEnum):
    """State of a configured plugin."""

    AVAILABLE = "available"
    LOADED = "loaded"
    DISABLED = "disabled"
    UNTRUSTED = "untrusted"
    NOT_INSTALLED = "not installed"
    FAILED = "failed"


@frozen(kw_only=True)
class PluginListing:
    """A plugin in a listing.

    Attributes:
        entry: Entry of the plugin in the configuration: name, module, package, source.
        state: State of the plugin.
        reason: The error, in one line; empty without one.
    """

    entry: PluginEntry
    state: PluginState
    reason: str = ""

    @property
    def is_provider(self) -> bool:
        """True if it is configured as a provider."""
        return self.entry.table == "providers"

    @property
    def is_usable(self) -> bool:
        """True if it can be used without consent."""
        return self.state in (PluginState.AVAILABLE, PluginState.LOADED)

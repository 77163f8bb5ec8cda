"""Markers of hooks: ``hookspec`` for declarations, ``hook`` for implementations."""

from __future__ import annotations

import pluggy

PROJECT = "vibe_llms"

hookspec = pluggy.HookspecMarker(PROJECT)
"""Marks the declaration of a hook; used only in :mod:`vibe_llms.plugins.specification`."""

hook = pluggy.HookimplMarker(PROJECT)
"""Marks a function of a plugin's module as the implementation of the hook of that name."""

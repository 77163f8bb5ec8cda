"""The markers of hooks: ``hookspec`` for ours, ``hook`` for everybody's implementations."""

from __future__ import annotations

import pluggy

PROJECT = "vibe_llms"

hookspec = pluggy.HookspecMarker(PROJECT)
"""Marks the declaration of a hook; only :mod:`vibe_llms.plugins.specification` has any."""

hook = pluggy.HookimplMarker(PROJECT)
"""Marks a function of a plugin's module as the implementation of the hook of that name."""

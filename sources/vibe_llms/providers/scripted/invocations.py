"""Invocables of ``scripted``: their descriptions as plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import attrs

from vibe_llms.messages.descriptions import InvocableDescription
from vibe_llms.messages.requests import Request
from vibe_llms.plain import JsonObject
from vibe_llms.providers.interfaces import ModelDescriptor, Translation


class ScriptedInvocationsProcessor:
    """Writes descriptions down and reads them back; nothing can be lost."""

    def nativize(self, request: Request, model: ModelDescriptor, /) -> Translation[JsonObject]:
        """Returns ``{"invocables": […], "choice": …}``."""
        described = [attrs.asdict(invocable, recurse=False) for invocable in request.invocables]
        return Translation({"invocables": described, "choice": request.invocation_choice})

    def normalize(
        self, native: JsonObject, model: ModelDescriptor, /
    ) -> Translation[tuple[tuple[InvocableDescription, ...], str]]:
        """Reads them back. Raises RequestError for one without a description."""
        described = cast(Sequence[Mapping[str, Any]], native["invocables"])
        invocables = tuple(InvocableDescription(**fields) for fields in described)
        return Translation((invocables, str(native["choice"])))

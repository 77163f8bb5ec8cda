"""Remote providers without a network: a function answers instead of the vendor."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import attrs

from vibe_llms.foundation.clocks import Clock
from vibe_llms.foundation.limits import Limits
from vibe_llms.models.catalogue import Catalogue
from vibe_llms.models.integrators import ModelsIntegrator
from vibe_llms.plugins.consents import SettledConsent, SilentProgress
from vibe_llms.plugins.specification.models import ProviderContext
from vibe_llms.testing.clocks import HurriedClock
from vibe_llms.wire.exchanges import WireRequest
from vibe_llms.wire.memory import MemoryAnswer, MemoryTransport


def produce_context(
    name: str,
    directory: Path,
    *,
    limits: Limits | None = None,
    clock: Clock | None = None,
    **settings: Any,
) -> ProviderContext:
    """Create the context of a provider, with the shipped data about its models."""
    return ProviderContext(
        name=name,
        settings=settings,
        data_directory=directory / "data",
        cache_directory=directory / "cache",
        consent=SettledConsent(False),
        progress=SilentProgress(),
        limits=limits or Limits(),
        clock=clock or HurriedClock(),
        produce_attributes=lambda: access_integrator(name),
    )


@cache
def access_integrator(name: str) -> ModelsIntegrator:
    """Return the shipped data about a provider's models; it is read once."""
    return Catalogue().access_integrator(name)


@attrs.define
class Counterpart:
    """Simulated vendor with scripted answers, which records its requests."""

    answers: list[MemoryAnswer | Exception]
    requests: list[WireRequest] = attrs.field(factory=list)

    async def __call__(self, request: WireRequest) -> MemoryAnswer:
        self.requests.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    @property
    def transport(self) -> MemoryTransport:
        """Transport to this vendor."""
        return MemoryTransport(self)


def answer_json(
    body: bytes, status: int = 200, headers: Mapping[str, str] | None = None
) -> MemoryAnswer:
    """Create a complete answer."""
    return MemoryAnswer(
        status=status,
        headers={"Content-Type": "application/json", **(headers or {})},
        chunks=[body],
    )


def answer_stream(
    chunks: Iterable[bytes], content_type: str = "text/event-stream", **headers: str
) -> MemoryAnswer:
    """Create a streamed answer."""
    return MemoryAnswer(headers={"Content-Type": content_type, **headers}, chunks=list(chunks))

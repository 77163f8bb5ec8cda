"""Ensembles connected by a registry, as in an engine, whose calls respect their limits."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from vibe_llms.invocables import InvocationContext, Registry, perform
from vibe_llms.invocables.ensembles import Ensemble
from vibe_llms.invocables.outcomes import Outcome
from vibe_llms.plugins.consents import SettledConsent, SilentProgress
from vibe_llms.plugins.specification.runs import EnsembleContext

Invoke = Callable[..., Any]
"""Function that invokes a tool by its name, and returns the outcome."""


def produce_ensemble_context(name: str, directory: Path, **settings: Any) -> EnsembleContext:
    """Create the context of an ensemble whose user works in a directory."""
    return EnsembleContext(
        name=name,
        settings=settings,
        working_directory=directory,
        data_directory=directory / ".data",
        cache_directory=directory / ".cache",
        consent=SettledConsent(False),
        progress=SilentProgress(),
    )


@asynccontextmanager
async def connect_ensembles(*ensembles: Ensemble) -> AsyncIterator[Invoke]:
    """Connect ensembles; yield a function that invokes their tools."""
    async with Registry(ensembles) as registry:

        async def invoke(name: str, /, **arguments: Any) -> Outcome:
            return await perform(registry.access(name), arguments, InvocationContext())

        yield invoke

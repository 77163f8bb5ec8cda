"""Combine the results of several calls: the parts that all kinds of results share.

Vectors, rankings and moderations of many texts may take several calls to the vendor.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import attrs

from vibe_llms.messages.canisters import Origin, Usage
from vibe_llms.messages.losses import Loss
from vibe_llms.messages.views import add_usages


class CallResult(Protocol):
    """Interface of a call's result, which is a frozen attrs value."""

    @property
    def origin(self) -> Origin:
        """The model, and its usage."""

    @property
    def usage(self) -> Usage | None:
        """Usage of the call; ``None`` if the vendor did not report any."""

    @property
    def losses(self) -> tuple[Loss, ...]:
        """Losses of the translation."""


def join_origins(parts: Sequence[CallResult]) -> Origin:
    """Return the origin of several results of one model, with the sum of their usage."""
    usage = add_usages(part.usage for part in parts)
    return attrs.evolve(parts[0].origin, usage=usage, response_id=None)


def join_losses(parts: Sequence[CallResult]) -> tuple[Loss, ...]:
    """Return the losses of several results, each once."""
    return tuple(dict.fromkeys(loss for part in parts for loss in part.losses))

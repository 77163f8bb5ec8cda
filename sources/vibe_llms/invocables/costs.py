"""What it costs in tokens to tell a model about invokers, in each request anew."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from vibe_llms.invocables.invokers import Invoker
from vibe_llms.models.counting import count_invocable
from vibe_llms.models.tokens import TokenCount

if TYPE_CHECKING:
    from vibe_llms.models.attributes import ModelAttributes


def measure_schemas(
    invokers: Iterable[Invoker], attributes: ModelAttributes | None = None
) -> TokenCount:
    """Estimates what the names, purposes and schemas of invokers occupy as input.

    Without what a vendor says besides as soon as there is any invocable; see
    :data:`~vibe_llms.models.counting.INVOCABLES_OVERHEAD`.

    Args:
        attributes: Of the model that is told; without them the estimate is wider.
    """
    total = TokenCount(tokens=0)
    for invoker in invokers:
        total += count_invocable(invoker.describe(), attributes)
    return total

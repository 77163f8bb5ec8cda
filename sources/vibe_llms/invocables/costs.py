"""Token costs of describing invokers to a model, in each request."""

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
    """Estimate the input tokens of the names, descriptions and schemas of invokers.

    The estimate excludes a vendor's fixed overhead for requests with tools; see
    :data:`~vibe_llms.models.counting.INVOCABLES_OVERHEAD`.

    Args:
        attributes: Attributes of the model; without them the estimate is less precise.
    """
    total = TokenCount(tokens=0)
    for invoker in invokers:
        total += count_invocable(invoker.describe(), attributes)
    return total

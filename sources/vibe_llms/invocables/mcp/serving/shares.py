"""Of what there is only so much of, no client has so much that nothing is left to the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import Any

import attrs
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR

from vibe_llms.exceptions import LimitError
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.invocables.mcp.serving.callers import access_subject


def find_client(context: Any) -> Hashable:
    """Returns who asks: whom the authorizer names, or else from where.

    ``None`` where there is but one, who has started us.
    """
    if context.request is None:
        return None
    place = getattr(context.request, "scope", {}).get("client")
    return access_subject(context) or (place[0] if place else "")


def is_over(client: Hashable, held: int, left: int) -> bool:
    """Tells whether somebody may have no more: at most as much as is left then.

    So one who comes alone has half of all, and whoever comes next always finds something.
    """
    return left <= 0 or (client is not None and held >= left)


def ensure_share(client: Hashable, held: int, left: int, what: str, limit: LimitError) -> None:
    """Sees to it that somebody may have one more. Raises MCPError."""
    if not is_over(client, held, left):
        return
    if left > 0:
        what = f"{what}: this client has {held}; the rest is reserved for other clients"
    raise MCPError(INTERNAL_ERROR, f"{what}. {limit}")


@define(eq=False)
class Shares:
    """Counts who holds how much of one thing.

    Attributes:
        limit: Of how much there is, by its name.
        what: What is said where there is no more.
    """

    limit: LimitError
    what: str
    _held: Counter[Hashable] = attrs.field(factory=Counter, init=False)

    def take(self, client: Hashable) -> None:
        """Gives somebody one. Raises MCPError."""
        left = int(self.limit.value) - self._held.total()
        ensure_share(client, self._held[client], left, self.what, self.limit)
        self._held[client] += 1

    def give_back(self, client: Hashable) -> None:
        """Takes one back."""
        self._held[client] -= 1
        if not self._held[client]:
            del self._held[client]

    @contextmanager
    def hold(self, client: Hashable) -> Iterator[None]:
        """Gives somebody one for a while. Raises MCPError."""
        self.take(client)
        try:
            yield
        finally:
            self.give_back(client)

"""Fair shares of limited resources: no client takes all."""

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
    """Return the client: the authorizer's subject, or else the address.

    ``None`` if there is only one client, the parent program.
    """
    if context.request is None:
        return None
    place = getattr(context.request, "scope", {}).get("client")
    return access_subject(context) or (place[0] if place else "")


def is_over(client: Hashable, held: int, left: int) -> bool:
    """Return whether a client has reached its share: at most as much as is left then.

    So a single client gets half of all, and the next client always finds something.
    """
    return left <= 0 or (client is not None and held >= left)


def ensure_share(client: Hashable, held: int, left: int, what: str, limit: LimitError) -> None:
    """Check that a client may have one more. Raises MCPError."""
    if not is_over(client, held, left):
        return
    if left > 0:
        what = f"{what}: this client has {held}; the rest is reserved for other clients"
    raise MCPError(INTERNAL_ERROR, f"{what}. {limit}")


@define(eq=False)
class Shares:
    """Counts each client's share of one resource.

    Attributes:
        limit: Maximum of the resource.
        what: Message if nothing is left.
    """

    limit: LimitError
    what: str
    _held: Counter[Hashable] = attrs.field(factory=Counter, init=False)

    def take(self, client: Hashable) -> None:
        """Give a client one. Raises MCPError."""
        left = int(self.limit.value) - self._held.total()
        ensure_share(client, self._held[client], left, self.what, self.limit)
        self._held[client] += 1

    def give_back(self, client: Hashable) -> None:
        """Take one back."""
        self._held[client] -= 1
        if not self._held[client]:
            del self._held[client]

    @contextmanager
    def hold(self, client: Hashable) -> Iterator[None]:
        """Give a client one during the block. Raises MCPError."""
        self.take(client)
        try:
            yield
        finally:
            self.give_back(client)

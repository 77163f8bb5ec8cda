"""Fair shares of limited resources, so that one client cannot use all."""

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
    """Return the identity of a client: the authorizer's subject, or the address.

    The identity is ``None`` for the parent program, which is the only client.
    """
    if context.request is None:
        return None
    place = getattr(context.request, "scope", {}).get("client")
    address = place[0] if place else ""
    return access_subject(context) or address


def is_over(client: Hashable, used: int, free: int) -> bool:
    """Return whether a client has reached its share.

    A client may use at most as much as is still free, so that a single client gets half, and
    something is free for the next client.
    """
    return free <= 0 or (client is not None and used >= free)


def ensure_share(client: Hashable, used: int, free: int, problem: str, limit: LimitError) -> None:
    """Check that a client may have one more. Raises MCPError."""
    if not is_over(client, used, free):
        return
    if free > 0:
        problem = f"{problem}: this client has {used}; the rest is reserved for other clients"
    raise MCPError(INTERNAL_ERROR, f"{problem}. {limit}")


@define(eq=False)
class Shares:
    """Counts each client's share of one resource.

    Attributes:
        limit: Maximum of the resource.
        problem: The message if nothing is free.
    """

    limit: LimitError
    problem: str
    _used: Counter[Hashable] = attrs.field(factory=Counter, init=False)

    def take(self, client: Hashable) -> None:
        """Give a client one. Raises MCPError."""
        free = int(self.limit.value) - self._used.total()
        ensure_share(client, self._used[client], free, self.problem, self.limit)
        self._used[client] += 1

    def give_back(self, client: Hashable) -> None:
        """Take one back."""
        self._used[client] -= 1
        if not self._used[client]:
            del self._used[client]

    @contextmanager
    def hold(self, client: Hashable) -> Iterator[None]:
        """Give a client one during the block. Raises MCPError."""
        self.take(client)
        try:
            yield
        finally:
            self.give_back(client)

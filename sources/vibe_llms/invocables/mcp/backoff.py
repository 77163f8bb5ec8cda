"""When a server that has ended is started again, and when it is given up."""

from __future__ import annotations

from typing import Final

import attrs

FIRST_SECONDS: Final = 0.2
LONGEST_SECONDS: Final = 30.0
HEALTHY_SECONDS: Final = 60.0
"""A server that lived as long as this is forgiven its earlier ends."""


@attrs.frozen
class Backoff:
    """How often in a row a server has been started again, of so many times that it may be."""

    restarts: int
    used: int = 0

    def plan(self, lived_seconds: float) -> tuple[Backoff, float | None]:
        """Returns what follows the end of a server.

        Args:
            lived_seconds: How long it was connected; 0 where it could not be.

        Returns:
            What to plan with next time, and how long to wait before the server is started
            again; ``None`` where it is given up.
        """
        used = 0 if lived_seconds >= HEALTHY_SECONDS else self.used
        if used >= self.restarts:
            return self, None
        seconds = min(FIRST_SECONDS * 2.0 ** min(used, 30), LONGEST_SECONDS)
        return Backoff(self.restarts, used + 1), seconds

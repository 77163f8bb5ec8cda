"""Program that serves a gateway, and kills itself at a point of a client's batch at a vendor.

``[POINT]``; without one, it lives on.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))  # so that `support` can be imported

from support.batches.vendor_batch_runner import POINTS, install_kill
from vibe_llms.batches import collecting, submitting
from vibe_llms.daemons.gateway.batches import vendor_following
from vibe_llms.daemons.gateway.batches.results import BatchResults
from vibe_llms.daemons.gateway.batches.storage import GatewayBatchStorage
from vibe_llms.interfaces.cli.entry import main

GATEWAY_POINTS: dict[str, tuple[type, str, bool]] = {
    **POINTS,
    "before the roads": (GatewayBatchStorage, "write_roads", False),
    "after the roads": (GatewayBatchStorage, "write_roads", True),
    "before the results": (BatchResults, "add", False),
    "after the results": (BatchResults, "add", True),
}
"""From the points at which a gateway is killed to class, method, and whether after the call."""

if __name__ == "__main__":
    point = "".join(sys.argv[1:])
    vendor_following.WATCH_SECONDS = 0.02  # type: ignore[misc]
    collecting.FIRST_PAUSE_SECONDS = 0.02  # type: ignore[misc]
    submitting.FIRST_PAUSE_SECONDS = 0.02  # type: ignore[misc]
    submitting.PAUSE_GROWTH = 1.0  # type: ignore[misc]
    submitting.ARRIVING_SECONDS = 1  # type: ignore[misc]
    if point:
        install_kill(*GATEWAY_POINTS[point], 3 if "middle" in point else 1)
    sys.argv = ["vibe", "serve", "gateway", "--port", "0", "--yes"]
    main()

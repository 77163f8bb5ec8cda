"""The simulator as a command: ``python -m vibe_llms.testing.simulator --port 0``."""

from __future__ import annotations

import argparse
import asyncio
import contextlib

from vibe_llms.testing.simulator.faults import (
    BACKGROUND_FAULTS,
    BATCH_FAULTS,
    FAULTS,
    FILE_FAULTS,
    LIVE_FAULTS,
    QUIRKS,
)
from vibe_llms.testing.simulator.server import Simulator


def main() -> None:
    """Run a simulator until it is interrupted; its first line of output is its URL."""
    lines = {**FAULTS, **BACKGROUND_FAULTS, **BATCH_FAULTS, **FILE_FAULTS, **LIVE_FAULTS, **QUIRKS}
    names = "\n".join(f"  {name}: {line}" for name, line in lines.items())
    parser = argparse.ArgumentParser(
        prog="python -m vibe_llms.testing.simulator",
        description="Vendors of language models, simulated on loopback.",
        epilog=f"faults and quirks:\n{names}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen at")
    parser.add_argument("--port", type=int, default=0, help="the port; 0 for any that is free")
    parser.add_argument("--simulate", default="", help="faults and quirks for each request")
    options = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(options.host, options.port, options.simulate))


async def _serve(host: str, port: int, simulate: str) -> None:
    async with Simulator(simulate, host=host, port=port) as simulator:
        print(simulator.url, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    main()

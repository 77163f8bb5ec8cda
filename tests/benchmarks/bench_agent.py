"""Cost of an agent's turn in a long run, over HTTP, through the public interface.

At each turn the whole conversation goes to the vendor; the cost of writing it must not grow with
it. One run of 310 turns, each an answer that calls a tool and its result, against a server in
another process; CPU time of this process, from one execution of the tool to the next. Rows: a turn
around the 20th, one around the 300th, and their ratio, by each of three protocols.
"""

from __future__ import annotations

import asyncio
import gc
import os
import statistics
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import loopback
import tomli_w

from vibe_llms import Conversation, Engine
from vibe_llms.foundation.limits import Limits
from vibe_llms.invocables import invocable
from vibe_llms.messages.canisters import UserCanister

EARLY, LATE, AROUND = 20, 300, 10
TURNS = LATE + AROUND
RUNS = 5
BUDGET = 1.5
PROVIDERS = {
    "chat": "openai_conversations",
    "responses": "openai_responses",
    "messages": "anthropic",
}
ANSWER = "Of the rain at this place it is known that it is water, and that it comes from above."
LIMITS = Limits(run_steps=TURNS, run_invocations=TURNS, run_tokens=10**9)


async def run(engine: Engine, moments: list[float]) -> tuple[float, float]:
    """Runs once; returns the seconds that a turn took, early and late."""
    moments.clear()
    gc.collect()
    outcome = await engine.answer(Conversation(canisters=[UserCanister("Look at it all.")]))
    if outcome.limit != "run_steps" or len(moments) != TURNS:
        raise AssertionError(f"{len(moments)} turns, {outcome.reason}: {outcome.detail}")
    turns = [after - before for before, after in pairwise(moments)]
    early, late = (turns[at - AROUND : at + AROUND - 1] for at in (EARLY, LATE))
    return statistics.median(early), statistics.median(late)


async def measure(provider: str, *, stream: bool) -> tuple[float, float]:
    """Returns the best of several runs, in microseconds a turn, early and late."""
    moments: list[float] = []

    @invocable(effect="pure")
    async def look(at: str) -> str:
        """Looks.

        Args:
            at: At what.
        """
        moments.append(time.process_time())
        return ANSWER

    async with Engine(f"{provider}:m", [look], limits=LIMITS, stream=stream) as engine:
        seen = [await run(engine, moments) for _ in range(RUNS)]
    early, late = (min(each) * 1e6 for each in zip(*seen, strict=True))
    return early, late


async def _main() -> None:
    for protocol, provider in PROVIDERS.items():
        early, late = await measure(provider, stream=False)
        ratio = late / early
        verdict = "yes" if ratio <= BUDGET else "NO"
        print(
            f"{protocol:10} a turn at {EARLY} turns {early:6.0f} us, at {LATE} turns {late:6.0f} us"
            f"  x {ratio:.2f}  (at most {BUDGET}: {verdict})",
            flush=True,
        )


def main() -> None:
    """Prints the table."""
    with loopback.run_server() as url, tempfile.TemporaryDirectory() as folder:
        tables = {
            name: {
                "base_url": f"{url}/acting" + ("" if protocol == "messages" else "/v1"),
                "api_key": "x",
            }
            for protocol, name in PROVIDERS.items()
        }
        file = Path(folder) / "config.toml"
        file.write_text(tomli_w.dumps({"providers": tables}), encoding="utf-8")
        os.environ["VIBE_LLMS_CONFIG"] = str(file)
        asyncio.run(_main())


if __name__ == "__main__":
    main()

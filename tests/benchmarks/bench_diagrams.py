"""Cost of reading a diagram and checking its task, by the size of the diagram.

    python tests/benchmarks/bench_diagrams.py

Prints processor time in milliseconds, the least of three, for 500 to 4,000 nodes, and how the time
for one node grows from 1,000 nodes to 4,000. Targets: 2,000 nodes of any shape are read and checked
in less than a second, and the growth is at most 1.6: calls grow as nodes do, which is a test, and
the rest is caches and the collection of garbage.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable

from support.diagrams.large_diagrams import SHAPES, compose_task
from vibe_llms.flows.checking import check_task
from vibe_llms.flows.task_reading import examine_task
from vibe_llms.mermaid import parse_diagram

SIZES = (500, 1_000, 2_000, 4_000)
ROUNDS = 3


STEPS: dict[str, Callable[[str], object]] = {
    "read": parse_diagram,
    "read and checked": lambda text: check_task(examine_task(compose_task(text))),
}


def measure(step: Callable[[str], object], text: str) -> float:
    """Returns the least processor time of some rounds, in milliseconds."""
    taken = []
    for _ in range(ROUNDS):
        gc.collect()
        began = time.process_time()
        step(text)
        taken.append(time.process_time() - began)
    return min(taken) * 1000


def main() -> None:
    """Prints a table for each step."""
    for name, step in STEPS.items():
        head = "".join(f"{size:9,}" for size in SIZES)
        print(f"{name + ', ms':24}{head}   growth")
        for shape, draw in SHAPES.items():
            spent = [measure(step, draw(size)) for size in SIZES]
            growth = spent[-1] / spent[1] / (SIZES[-1] / SIZES[1])
            print(f"  {shape:22}{''.join(f'{each:9.0f}' for each in spent)}{growth:9.2f}")
        print()


if __name__ == "__main__":
    main()

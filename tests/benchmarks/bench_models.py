"""Cost of reading the attributes of thousands of models, against reading the file alone.

    python tests/benchmarks/bench_models.py

Prints medians of the CPU of this process, and ratios. The floor is ``tomli``, which must read the
file in any case. Targets: 1,000 and 10,000 models are read within 5 times the floor, each; access
to one model costs the same among both.
"""

from __future__ import annotations

import functools
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import tomli

from vibe_llms.models.folders import ProviderFolder
from vibe_llms.models.integrators import ModelsIntegrator
from vibe_llms.models.rules import Rule

ROUNDS = 7
TABLE = """
[[models]]
model = "vendor/model-{0}"
context_window = {0}
supports_invocations = true
[models.controls.temperature]
kind = "interval"
"""


def measure(work: Callable[[], object], rounds: int = ROUNDS) -> float:
    """Returns the median of the CPU that a piece of work takes, in milliseconds."""
    spent = []
    for _ in range(rounds):
        before = time.process_time()
        work()
        spent.append(time.process_time() - before)
    return statistics.median(spent) * 1000


def read(directory: Path) -> list[Rule]:
    """Reads the rules of a folder, in which there are no mistakes."""
    folder = ProviderFolder(directory=directory, findings=[])
    rules = list(folder.read())
    assert not folder.findings
    return rules


def integrate_all(integrator: ModelsIntegrator) -> None:
    """Integrate the attributes of each model, as a list of models does."""
    for name in integrator.survey_models():
        integrator.integrate(name)


def main() -> None:
    """Prints the table."""
    print(f"{'models':>7} {'tomli':>9} {'read':>9} {'ratio':>6} {'one model':>10} {'listed':>9}")
    for count in (1_000, 10_000):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "attributes.toml")
            text = "".join(TABLE.format(number + 1) for number in range(count))
            path.write_text(text, encoding="utf-8")
            floor = measure(functools.partial(tomli.loads, text))
            whole = measure(functools.partial(read, path.parent))
            rules = read(path.parent)
        integrator = ModelsIntegrator(provider="vendor", rules=rules)
        asked = f"vendor/model-{count // 2}"
        one = measure(functools.partial(integrator.integrate, asked), 200)
        every = measure(functools.partial(integrate_all, integrator), 3)
        print(
            f"{count:7,} {floor:6.1f} ms {whole:6.1f} ms {whole / floor:6.1f} "
            f"{one * 1000:7.0f} µs {every:6.0f} ms"
        )


if __name__ == "__main__":
    main()

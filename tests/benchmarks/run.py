"""Run the benchmarks, each in its own process: ``python tests/benchmarks/run.py [WORD …]``.

A benchmark is a file ``bench_*.py`` here that prints its table when it is run. With words, those
run whose names hold one of them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCES = HERE.parents[1] / "sources"


def choose(words: list[str]) -> list[Path]:
    """Return the benchmarks whose names contain one of the words; all without words."""
    benchmarks = sorted(HERE.glob("bench_*.py"))
    if not words:
        return benchmarks
    return [path for path in benchmarks if any(word in path.stem for word in words)]


def main() -> int:
    """Run the chosen benchmarks; return the number of failures."""
    chosen = choose(sys.argv[1:])
    if not chosen:
        names = ", ".join(path.stem.removeprefix("bench_") for path in choose([]))
        print(f"No benchmark is called so. There are: {names}", file=sys.stderr)
        return 2
    places = (str(SOURCES), str(HERE.parent), os.environ.get("PYTHONPATH", ""))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, places))}
    failed = []
    for path in chosen:
        started = time.monotonic()
        print(f"=== {path.stem.removeprefix('bench_')}", flush=True)
        if subprocess.run([sys.executable, str(path)], env=environment, check=False).returncode:
            failed.append(path.stem)
        print(f"--- {time.monotonic() - started:.0f} s\n", flush=True)
    if failed:
        print(f"Failed: {', '.join(failed)}", file=sys.stderr)
    return len(failed)


if __name__ == "__main__":
    sys.exit(main())

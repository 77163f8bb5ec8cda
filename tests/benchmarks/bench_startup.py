"""Cost of startup: CPU time of whole processes, as ratios to ``python -c pass``.

::

    python tests/benchmarks/bench_startup.py

Byte code is warmed first and may be written, as on a user's machine. Medians of interleaved
runs. Each subject has a home of its own: `list` is to meet none of the conversations that `ask`
leaves behind. Over the network a server on loopback answers at once, so that its own time is
next to nothing. `ask` is measured by the clock, to the first character of its answer, and compared
with the clock time of ``python -c pass``. Instructions are those of the whole process, where
valgrind is installed; the libraries alone, which any command needs that asks a model, are a row.
"""

from __future__ import annotations

import importlib.util
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import attrs
import loopback
from instructions import count_instructions

RUNS = 15
_LIBRARIES = "import asyncio, attrs, click, hashlib, json, msgspec, pluggy, queue, tomli, tomli_w"
_ENTRY = "from vibe_llms.interfaces.cli.entry import main; main()"
_SOURCES = Path(__file__).resolve().parents[2] / "sources"


@attrs.frozen(kw_only=True)
class Subject:
    """One row of the table.

    Attributes:
        limit: The ratio that is aimed at; ``None`` where it is only shown for comparison.
        to_first_character: Measure by the clock until something is written.
        configuration: What its home has as the user's configuration.
    """

    name: str
    command: list[str]
    limit: float | None = None
    environment: dict[str, str] = attrs.field(factory=dict)
    to_first_character: bool = False
    configuration: str = ""


def _vibe(*arguments: str) -> list[str]:
    return [sys.executable, "-c", _ENTRY, *arguments]


def survey_subjects(url: str) -> list[Subject]:
    """Lists what is measured, without what is not installed; a server is at the address."""
    completion = {"_VIBE_COMPLETE": "bash_complete", "COMP_LINE": "vibe re"}
    subjects = [
        Subject(name="import vibe_llms", command=_python("import vibe_llms"), limit=1.2),
        Subject(name="vibe --version", command=_vibe("--version"), limit=2.5),
        Subject(name="vibe --help", command=_vibe("--help"), limit=7),
        Subject(name="vibe list, empty store", command=_vibe("list"), limit=7),
        Subject(name="one Tab", command=_vibe(), limit=7, environment=completion),
        Subject(
            name="from vibe_llms import Model",
            command=_python("from vibe_llms import Model"),
            limit=10,
        ),
        Subject(
            name="vibe ask, first character",
            command=_vibe("ask", "-m", "scripted:echo", "Hello"),
            limit=12,
            to_first_character=True,
        ),
        Subject(
            name="vibe ask over the network",
            command=_vibe("ask", "-m", "openai_conversations:m", "Hello"),
            limit=26,
            environment={"OPENAI_API_KEY": "x"},
            to_first_character=True,
            configuration=f'[providers.openai_conversations]\nbase_url = "{url}/at-once/v1"\n',
        ),
    ]
    subjects.append(Subject(name="its libraries alone", command=_python(_LIBRARIES)))
    if shutil.which("llm"):
        subjects.append(Subject(name="llm --version", command=["llm", "--version"]))
    if importlib.util.find_spec("litellm"):
        subjects.append(Subject(name="import litellm", command=_python("import litellm")))
    return subjects


def _python(code: str) -> list[str]:
    return [sys.executable, "-c", code]


def measure_cpu(command: list[str], environment: dict[str, str]) -> float:
    """Returns the CPU seconds of one process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure_first_character(command: list[str], environment: dict[str, str]) -> float:
    """Returns the seconds by the clock until a process writes, or ends."""
    started = time.perf_counter()
    with subprocess.Popen(
        command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.read(1)
        seconds = time.perf_counter() - started
        process.stdout.read()
    return seconds


def main() -> None:
    """Prints the table."""
    with loopback.run_server() as url:
        _print_table(survey_subjects(url))


def _produce_home(path: str, configuration: str) -> str:
    folder = Path(path) / ".config" / "vibe-llms"
    folder.mkdir(parents=True)
    if configuration:
        (folder / "config.toml").write_text(configuration)
    return path


def _print_table(subjects: list[Subject]) -> None:
    pass_command = _python("pass")
    cpu: dict[str, list[float]] = {subject.name: [] for subject in subjects}
    base: dict[bool, list[float]] = {False: [], True: []}
    environment = {
        key: value
        for key, value in os.environ.items()
        if key != "PYTHONDONTWRITEBYTECODE" and not key.startswith(("XDG_", "VIBE_"))
    } | {"PYTHONPATH": str(_SOURCES)}
    with tempfile.TemporaryDirectory() as homes:
        own = {
            subject.name: environment
            | subject.environment
            | {"HOME": _produce_home(f"{homes}/{number}", subject.configuration)}
            for number, subject in enumerate(subjects)
        }
        for subject in subjects:
            measure_cpu(subject.command, own[subject.name])
        for _ in range(RUNS):
            base[False].append(measure_cpu(pass_command, environment))
            base[True].append(measure_first_character(pass_command, environment))
            for subject in subjects:
                measure = measure_first_character if subject.to_first_character else measure_cpu
                seconds = measure(subject.command, own[subject.name])
                cpu[subject.name].append(seconds)
        print(f"python -c pass: {statistics.median(base[False]) * 1000:.1f} ms of CPU")
        floor = count_instructions(pass_command, environment)
        counts = f"{'M instr.':>10}{'ratio':>8}" if floor else ""
        print(f"{'start-up':<28}{'ms':>8}{'ratio':>8}{'aim':>8}{counts}")
        for subject in subjects:
            seconds = statistics.median(cpu[subject.name])
            ratio = seconds / statistics.median(base[subject.to_first_character])
            aim = "" if subject.limit is None else f"{subject.limit:g}"
            counted = count_instructions(subject.command, own[subject.name])
            more = f"{counted / 1e6:>10.0f}{counted / floor:>8.2f}" if counted and floor else ""
            print(
                f"{subject.name:<28}{seconds * 1000:>8.1f}{ratio:>8.2f}{aim:>8}{more}", flush=True
            )
    for name in ("llm --version", "import litellm"):
        if name not in cpu:
            print(f"{name:<28}{'not installed':>16}")


if __name__ == "__main__":
    main()

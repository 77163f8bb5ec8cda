"""Changes the code in small ways, one after the other, and finds what no test notices.

``python tests/support/quality/mutations.py`` prepares a workspace and runs ``mutmut`` in it. The
rest of the command line goes to ``mutmut``, so that ``run 'vibe_llms.engine.*'`` tries one package,
``results`` lists what survived, and ``show NAME`` prints a change. ``judge`` says which survivors
are explained neither by ``mutations.toml`` beside this file nor by being another wording of what
people read, and which explanations are of changes that do not survive; it ends with 1 if there are
any. Needs the extra ``mutation``.

The workspace is a copy: ``mutmut`` knows sources in ``src/`` only, and the checkout can be worked
on meanwhile. What was found out stays there, and only functions that have changed are tried again;
whoever has written a test that shall kill a survivor names the survivor. One run at a time works
there: a second would copy its files below the first.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import chdir
from functools import partial
from pathlib import Path

from vibe_llms.exceptions import StoreError
from vibe_llms.logs.locks import locked

ROOT = Path(__file__).parents[3]
WORKSPACE = Path(tempfile.gettempdir()) / f"vibe-llms-mutations-{os.getuid()}"
TEMPORARY = WORKSPACE / "temporary"
PROGRAM = [sys.executable, str(Path(__file__).with_name("mutation_server.py"))]

SUBJECTS = [
    "configuration/merging.py",
    "engine/*.py",
    "models/merging.py",
    "foundation/json_types.py",
    "providers/credentials.py",
    "providers/keeping.py",
    "runs/*.py",
    "telemetry/odometer.py",
]
"""What is changed: where a mistake costs money, repeats a side effect or loses what was said."""

TESTS = [
    "tests/contracts/test_postgresql_store_contract.py",
    "tests/integration/test_hosted_runs.py",
    "tests/integration/test_deferred_runs.py",
    "tests/integration/test_postgresql_store.py",
    "tests/unit/configuration",
    "tests/unit/engine",
    "tests/unit/interfaces/cli/test_cli_replaying.py",
    "tests/unit/models/test_model_merging.py",
    "tests/unit/models/test_models_integrator.py",
    "tests/unit/providers/test_credentials.py",
    "tests/unit/providers/test_keeping.py",
    "tests/unit/runs",
    "tests/unit/telemetry",
    "tests/unit/foundation/test_json_types.py",
]
"""The quick tests of these; of them, each change meets those that reach its function."""

UNFIT = ["tests/unit/engine/test_costs.py"]
"""Tests that count calls: what switches between the changes calls functions, too."""

SETTINGS = {
    "source_paths": ["src"],
    "only_mutate": [f"src/vibe_llms/{subject}" for subject in SUBJECTS],
    "also_copy": ["data"],
    "pytest_add_cli_args": ["-n0", "-p", "no:cacheprovider"],
    "pytest_add_cli_args_test_selection": TESTS + [f"--ignore={name}" for name in UNFIT],
    # The tests start processes and threads: a change is tried in a process that has not run them.
    "process_isolation": "forkserver",
    "track_dependencies": False,
    "use_git_change_detection": False,
    "timeout_constant": 2.0,
    "timeout_multiplier": 4.0,
}


def prepare_workspace() -> None:
    """Brings the copy up to date; a file that is the same keeps its time, and what is known."""
    shutil.rmtree(TEMPORARY, ignore_errors=True)
    TEMPORARY.mkdir()
    for source, target in {"sources": "src", "tests": "tests", "data": "data"}.items():
        if _mirror(ROOT / source, WORKSPACE / target):
            # mutmut asks of tests that are new to it which functions they reach; the others may
            # reach others by now, as where a function has moved.
            (WORKSPACE / "mutants" / "mutmut-stats.json").unlink(missing_ok=True)
        if target != "src":  # mutmut copies what is not there yet
            shutil.rmtree(WORKSPACE / "mutants" / target, ignore_errors=True)
    lines = [f"{name} = {json.dumps(value)}" for name, value in SETTINGS.items()]
    project = (ROOT / "pyproject.toml").read_text()
    text = "\n".join([project, "[tool.mutmut]", *lines, ""])
    (WORKSPACE / "pyproject.toml").write_text(text)


def _mirror(source: Path, target: Path) -> bool:
    """Makes a folder like another; tells whether it was not."""
    changed = False
    wanted = {
        path.relative_to(source)
        for path in source.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    for path in [*target.rglob("*")]:
        if path.is_file() and path.relative_to(target) not in wanted:
            path.unlink()
            changed = True
    for name in wanted:
        data = (source / name).read_bytes()
        copy = target / name
        if not copy.exists() or copy.read_bytes() != data:
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(data)
            changed = True
    return changed


EXPLANATIONS = Path(__file__).with_name("mutations.toml")
"""Changes that break no promise: in which function, its lines as ``show`` prints them, and why."""

_LITERAL = re.compile(r"""\"[^"]*\"|'[^']*'""")


def read_change(shown: str) -> str:
    """Return the lines of a change that ``show`` prints, without those around them."""
    return "\n".join(
        f"{line[0]}{' '.join(line[1:].split())}"
        for line in shown.splitlines()
        if re.match(r"[-+](?![-+]{2} )", line)
    )


def is_wording(change: str) -> bool:
    """Return whether a change is one of words between which there are spaces: people read them."""
    sides: dict[str, list[str]] = {"-": [], "+": []}
    for line in change.splitlines():
        sides[line[0]].append(_LITERAL.sub(_drop_prose, line[1:]))
    return bool(change) and sides["-"] == sides["+"]


def _drop_prose(literal: re.Match[str]) -> str:
    return "" if " " in literal[0] else literal[0]


def judge() -> int:
    """Compares what survived with what is explained; returns how the command ends."""
    explained = {
        (each["where"], "\n".join(each["change"].strip().splitlines()))
        for each in tomllib.loads(EXPLANATIONS.read_text("utf-8"))["stays"]
    }
    counts: Counter[tuple[str, str]] = Counter()
    unexplained, met, uncertain = 0, set[tuple[str, str]](), set[str]()
    for name, status, show in _survey():
        where = name.rpartition("__mutmut_")[0]
        if status in ("not checked", "timeout"):  # the latter may be due to a busy machine
            uncertain.add(where)
        if status == "survived":
            change = read_change(show())
            if is_wording(change):
                status = "wording"
            elif (where, change) in explained:
                status = "explained"
                met.add((where, change))
            else:
                unexplained += 1
                print(f"{name}\n{change}\n")
        counts[name.rpartition(".")[0], status] += 1
    modules = {module for module, _ in counts}
    vain = [
        each
        for each in sorted(explained - met)
        if each[0] not in uncertain and each[0].rpartition(".")[0] in modules
    ]
    for where, change in vain:
        print(f"{where} does not survive, though it is explained\n{change}\n")
    for (module, status), count in sorted(counts.items()):
        print(f"{module}: {count} {status}")
    print(f"{unexplained or 'No'} unexplained survivor{'' if unexplained == 1 else 's'}.")
    return int(unexplained > 0 or bool(vain))


def _survey() -> Iterator[tuple[str, str, Callable[[], str]]]:
    """Yields of each change its name, what came of it, and how to show it."""
    from mutmut.mutation.data import SourceFileMutationData
    from mutmut.mutation.diff_apply import get_diff_for_mutant
    from mutmut.stats import status_by_exit_code
    from mutmut.utils.file_utils import walk_mutatable_files

    with chdir(WORKSPACE):
        for path in walk_mutatable_files():
            data = SourceFileMutationData(path=path)
            data.load()
            for name, code in data.exit_code_by_key.items():
                yield name, status_by_exit_code[code], partial(get_diff_for_mutant, name, path=path)


def main(arguments: list[str]) -> int:
    """Prepares the workspace where something is to be run, and lets ``mutmut`` do the rest."""
    command = arguments or ["run"]
    if command[0] == "judge":
        return judge()
    if command[0] != "run":
        return _hand_on(command)
    WORKSPACE.mkdir(exist_ok=True)
    try:
        with locked(str(WORKSPACE / "lock"), wait_seconds=0.0):
            prepare_workspace()
            return _hand_on(command)
    except StoreError as error:
        print(error, file=sys.stderr)
        return 1


def _hand_on(command: list[str]) -> int:
    # A property that fails is all we want to know: to look for its smallest example takes longer.
    environment = {**os.environ, "HYPOTHESIS_PROFILE": "unshrunk"}
    environment["PYTEST_DEBUG_TEMPROOT"] = str(TEMPORARY)
    ended = subprocess.run([*PROGRAM, *command], cwd=WORKSPACE, env=environment, check=False)
    return ended.returncode


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

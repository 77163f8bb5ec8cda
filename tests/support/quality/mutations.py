"""Mutation tests: make small changes to the code, and list those that no test notices.

``python tests/support/quality/mutations.py`` prepares a workspace and runs ``mutmut`` in it. The
rest of the command line goes to ``mutmut``, so that ``run 'vibe_llms.engine.*'`` tests one package,
``results`` lists the survivors (changes that no test noticed), and ``show NAME`` prints a change.
``judge`` prints the survivors that are neither explained in ``mutations.toml`` nor changes of a
text for people, and the explanations of changes that do not survive; it exits with 1 if there are
any. Needs the extra ``mutation``.

The workspace is a copy: ``mutmut`` requires sources in ``src/``, and you can edit the checkout
during a run. The results stay there, and only changed functions are tested again. After you write a
test for a survivor, run that survivor by its name. Only one run at a time is possible, because a
second one would replace the files of the first.
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
"""Modules to change: mistakes there cost money, repeat side effects or lose messages."""

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
"""Fast tests of these modules; a change is tested by those that reach its function."""

EXCLUDED_TESTS = ["tests/unit/engine/test_costs.py"]
"""Tests that count calls: mutmut's switch between changes adds calls."""

SETTINGS = {
    "source_paths": ["src"],
    "only_mutate": [f"src/vibe_llms/{subject}" for subject in SUBJECTS],
    "also_copy": ["data"],
    "pytest_add_cli_args": ["-n0", "-p", "no:cacheprovider"],
    "pytest_add_cli_args_test_selection": TESTS + [f"--ignore={name}" for name in EXCLUDED_TESTS],
    # The tests start processes and threads, so each change is tested in a fresh process.
    "process_isolation": "forkserver",
    "track_dependencies": False,
    "use_git_change_detection": False,
    "timeout_constant": 2.0,
    "timeout_multiplier": 4.0,
}


def prepare_workspace() -> None:
    """Update the copy; unchanged files keep their times and results."""
    shutil.rmtree(TEMPORARY, ignore_errors=True)
    TEMPORARY.mkdir()
    for source, target in {"sources": "src", "tests": "tests", "data": "data"}.items():
        if _mirror(ROOT / source, WORKSPACE / target):
            # mutmut measures which functions a test reaches only for new tests, but changed tests
            # or moved functions can change that.
            (WORKSPACE / "mutants" / "mutmut-stats.json").unlink(missing_ok=True)
        if target != "src":  # mutmut copies missing files
            shutil.rmtree(WORKSPACE / "mutants" / target, ignore_errors=True)
    lines = [f"{name} = {json.dumps(value)}" for name, value in SETTINGS.items()]
    project = (ROOT / "pyproject.toml").read_text()
    text = "\n".join([project, "[tool.mutmut]", *lines, ""])
    (WORKSPACE / "pyproject.toml").write_text(text)


def _mirror(source: Path, target: Path) -> bool:
    """Make a folder equal to another; return whether that changed it."""
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
"""Changes that break nothing: function, lines as ``show`` prints them, and reason."""

_LITERAL = re.compile(r"""\"[^"]*\"|'[^']*'""")


def read_change(printed: str) -> str:
    """Return the changed lines of what ``show`` prints, without their context."""
    return "\n".join(
        f"{line[0]}{' '.join(line[1:].split())}"
        for line in printed.splitlines()
        if re.match(r"[-+](?![-+]{2} )", line)
    )


def is_wording(change: str) -> bool:
    """Return whether only a text with spaces changed, that is, a text for people."""
    sides: dict[str, list[str]] = {"-": [], "+": []}
    for line in change.splitlines():
        sides[line[0]].append(_LITERAL.sub(_drop_prose, line[1:]))
    return bool(change) and sides["-"] == sides["+"]


def _drop_prose(literal: re.Match[str]) -> str:
    return "" if " " in literal[0] else literal[0]


def judge() -> int:
    """Compare survivors with explanations; return the exit code."""
    explained = {
        (each["where"], "\n".join(each["change"].strip().splitlines()))
        for each in tomllib.loads(EXPLANATIONS.read_text("utf-8"))["stays"]
    }
    counts: Counter[tuple[str, str]] = Counter()
    unexplained, used, uncertain = 0, set[tuple[str, str]](), set[str]()
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
                used.add((where, change))
            else:
                unexplained += 1
                print(f"{name}\n{change}\n")
        counts[name.rpartition(".")[0], status] += 1
    modules = {module for module, _ in counts}
    outdated = [
        each
        for each in sorted(explained - used)
        if each[0] not in uncertain and each[0].rpartition(".")[0] in modules
    ]
    for where, change in outdated:
        print(f"{where} does not survive, though it is explained\n{change}\n")
    for (module, status), count in sorted(counts.items()):
        print(f"{module}: {count} {status}")
    print(f"{unexplained or 'No'} unexplained survivor{'' if unexplained == 1 else 's'}.")
    return int(unexplained > 0 or bool(outdated))


def _survey() -> Iterator[tuple[str, str, Callable[[], str]]]:
    """Yield the name and status of each change, and a function that prints it."""
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
    """Prepare the workspace for a run, and pass the command to ``mutmut``."""
    command = arguments or ["run"]
    if command[0] == "judge":
        return judge()
    if command[0] != "run":
        return _run_mutmut(command)
    WORKSPACE.mkdir(exist_ok=True)
    try:
        with locked(str(WORKSPACE / "lock"), wait_seconds=0.0):
            prepare_workspace()
            return _run_mutmut(command)
    except StoreError as error:
        print(error, file=sys.stderr)
        return 1


def _run_mutmut(command: list[str]) -> int:
    # A failure is enough; looking for its smallest example takes longer.
    environment = {**os.environ, "HYPOTHESIS_PROFILE": "unshrunk"}
    environment["PYTEST_DEBUG_TEMPROOT"] = str(TEMPORARY)
    ended = subprocess.run([*PROGRAM, *command], cwd=WORKSPACE, env=environment, check=False)
    return ended.returncode


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))

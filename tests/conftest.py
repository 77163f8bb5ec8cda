"""What all tests share: tests that want a program of the system say so where it is missing."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from support.quality.node_programs import find_missing
from support.quality.properties import draw_seed, load_profile
from support.stores.object_server import find_missing as find_objects_lack
from support.stores.postgresql_programs import find_missing as find_postgresql_lack
from support.vendors.embedded import DATA_VARIABLE

pytest_plugins = ["vibe_llms.testing.pytest_plugin"]

load_profile()

gc.disable()  # until all tests are found: none of that goes, and looking through it takes seconds

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # A shell lets what runs in its background ignore Ctrl-C, and children inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)

PROGRAMS = {"browser": "chromium", "terminal": "tmux"}
"""From marks to the program, and Debian package, that their tests drive; CI installs both.

What is marked ``node`` needs more: see ``node_programs.py``.
"""


MODULES = {
    "clients": ("a2a", "ag_ui", "cohere"),
    "parquet": ("pyarrow",),
    "schemathesis": ("schemathesis",),
    "transcription": ("faster_whisper",),
}
"""From marks to modules, of the extra ``equipment``, that their tests import."""

EQUIPPED = [*PROGRAMS, *MODULES, "node", "objects", "postgresql"]
"""Marks of tests that want more than Python and what ``development`` installs."""

LEFT_OUT = [*EQUIPPED, "weights"]
"""Marks of tests that run only where they or their files are named."""

DEFAULT_MARKS = "not slow and not soak"
"""What ``pyproject.toml`` leaves to run where nobody says otherwise."""


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Draws the seed before anybody asks for it, and lets a run of everything be the same anywhere.

    Without paths and marks on the command line, tests that need more than Python, or a real model,
    are left to runs of their own mark: see decision 0012. A named file or folder runs whole.
    """
    draw_seed(config)
    leave_home(config)
    is_all = config.args_source is pytest.Config.ArgsSource.TESTPATHS
    if is_all and config.option.markexpr == DEFAULT_MARKS:
        config.option.markexpr = f"{DEFAULT_MARKS} and not ({' or '.join(LEFT_OUT)})"


def leave_home(config: pytest.Config) -> None:
    """Give each process of the tests an empty home, so that they neither read nor write the user's.

    Weights of models and the downloads of pip and npm stay in the user's folders.
    """
    data = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    os.environ.setdefault(DATA_VARIABLE, data)
    os.environ.setdefault("PIP_CACHE_DIR", str(Path.home() / ".cache" / "pip"))
    os.environ.setdefault("npm_config_cache", str(Path.home() / ".npm"))
    for name in [name for name in os.environ if name.startswith("XDG_")]:
        del os.environ[name]
    home = tempfile.mkdtemp(prefix="vibe-llms-home-")
    os.environ["HOME"] = home
    config.add_cleanup(lambda: shutil.rmtree(home, ignore_errors=True))


def pytest_xdist_auto_num_workers() -> int:
    """Uses a worker more than there are cores: many tests wait, but each worker finds all tests."""
    return (os.cpu_count() or 1) + 1


def pytest_report_header(config: pytest.Config) -> str:
    """Says how to repeat a run at random."""
    return draw_seed(config)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips, saying why, what cannot run on this machine. CI lets none of these be skipped."""
    reasons = {
        mark: f"{name} is not installed"
        for mark, name in PROGRAMS.items()
        if shutil.which(name) is None
    }
    for mark, modules in MODULES.items():
        for module in modules:
            if find_spec(module) is None:
                reasons[mark] = f"{module} is not installed"
    if lack := find_missing():
        reasons["node"] = lack
    if lack := find_postgresql_lack():
        reasons["postgresql"] = lack
    if lack := find_objects_lack():
        reasons["objects"] = lack
    for item in items:
        for mark, reason in reasons.items():
            if item.get_closest_marker(mark):
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.hookimpl(tryfirst=True)
def pytest_collection(session: pytest.Session) -> None:
    """Import all tests in another order in each worker of a run of everything.

    The workers compile the same modules. In one order, they would compile each at the same time.
    """
    worker = getattr(session.config, "workerinput", None)
    if worker is None or session.config.args_source is not pytest.Config.ArgsSource.TESTPATHS:
        return
    folders = [session.config.rootpath / name for name in session.config.args]
    paths = [path for folder in folders for path in sorted(folder.rglob("test_*.py"))]
    start = len(paths) * int(worker["workerid"].removeprefix("gw")) // worker["workercount"]
    for path in (*paths[start:], *paths[:start]):
        before = set(sys.modules)
        try:
            pytest.Module.from_parent(session, path=path).obj  # noqa: B018  # imports it
        except (Exception, pytest.skip.Exception, pytest.Collector.CollectError):
            for name in set(sys.modules) - before:  # the collection tries it again, and reports it
                if getattr(sys.modules[name], "__file__", "") == str(path):
                    del sys.modules[name]


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Leaves what was found out of all later collections of garbage, and makes these rare.

    Tests keep little, but load many modules, through which each full collection looks.
    """
    gc.freeze()
    gc.set_threshold(10_000, 20, 50)
    gc.enable()

"""mutmut with a server that collects the tests once; ``mutations.py`` runs it.

mutmut starts pytest for each change, and collecting the tests takes longer than running them. Here
they are collected once, and each change is tested in a fork of that process.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterable

import pytest
from mutmut.__main__ import cli
from mutmut.configuration import config
from mutmut.mutation.trampoline import set_mutant_under_test
from mutmut.runners.harness import PytestRunner
from mutmut.state import state
from mutmut.utils.file_utils import change_cwd
from mutmut.workers import isolation


class Served:
    """pytest plugin that serves changes instead of running the collected tests."""

    session: pytest.Session | None = None

    def __init__(self, serve: Callable[[], None]) -> None:
        self._serve = serve

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        from support.stores.postgresql_programs import (
            find_missing,  # beside the tests that mutmut has copied
        )
        from support.stores.postgresql_server import access_server

        Served.session = session
        server = None if find_missing() else access_server()  # forked processes use it, too
        try:
            with warnings.catch_warnings():
                # Earlier tests may have turned warnings into errors. Files that mutmut leaves
                # open would then fail the first test of each change.
                warnings.simplefilter("ignore")
                self._serve()
        finally:
            if server is not None:
                server.close()
        return True


def _prove(session: pytest.Session) -> None:
    """Run one test of each file without a change; raise an error if any fails."""
    set_mutant_under_test("")
    firsts = list({item.path: item for item in reversed(session.items)}.values())
    if (child := os.fork()) == 0:
        ended = 1
        try:
            with open(os.devnull, "w") as sys.stdout:  # noqa: PTH123
                ended = _run(session, firsts)
        finally:
            os._exit(ended)
    if os.waitpid(child, 0)[1]:
        raise RuntimeError("Tests fail in the server that pass by themselves.")


def _run(session: pytest.Session, items: list[pytest.Item]) -> int:
    for item, following in zip(items, [*items[1:], None], strict=True):
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.testsfailed:
            return 1
    return 0


class Runner(PytestRunner):
    """Runner of tests that were collected before the fork."""

    def warm_up(self) -> None:
        """Do nothing: the server has collected the tests."""

    def run_tests(self, *, mutant_name: str | None, tests: Iterable[str]) -> int:
        """Run the fastest tests first, until one fails."""
        self.silence = sys.stdout  # keep a reference: pytest warns of unclosed files
        assert Served.session is not None
        wanted, durations = set(tests), state().duration_by_test
        items = [item for item in Served.session.items if item.nodeid in wanted]
        return _run(Served.session, sorted(items, key=lambda item: durations[item.nodeid]))


class Server(isolation.ForkServerRunner):
    """Server that collects the tests once, and forks for each change."""

    def _forkserver_main(self, work_fd: int, result_fd: int) -> None:
        self.test_runner_class = Runner
        arguments = ["--rootdir=.", "-q", *config().pytest_add_cli_args]
        # A forked process ends without cleanup, so each test removes its own files.
        arguments += ["-o", "tmp_path_retention_policy=failed"]
        arguments += config().pytest_add_cli_args_test_selection
        with change_cwd("mutants"), open(os.devnull, "w") as sys.stdout:  # noqa: PTH123
            serve = super()._forkserver_main
            ended = pytest.main(arguments, plugins=[Served(lambda: serve(work_fd, result_fd))])
        if ended != pytest.ExitCode.OK:
            raise RuntimeError(f"pytest ended with {ended} in the server.")

    def _setup_sigchld_pipe(self) -> tuple[int, int]:
        """Check, before the first change, that no test fails without a change."""
        assert Served.session is not None
        _prove(Served.session)
        return super()._setup_sigchld_pipe()


if __name__ == "__main__":
    isolation.ForkServerRunner = Server  # type: ignore[misc]
    cli(prog_name="mutmut")

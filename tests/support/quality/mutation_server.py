"""What ``mutations.py`` runs in its workspace: mutmut, with a server that finds the tests once.

mutmut starts pytest anew for each change, and to find the tests again takes longer than to run
them. Here all are found once, and each change is tried in a fork of that process.
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
    """A plugin of pytest that serves, in the place of running what was found."""

    session: pytest.Session | None = None

    def __init__(self, serve: Callable[[], None]) -> None:
        self._serve = serve

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        from support.stores.postgresql_programs import (
            find_lack,  # beside the tests that mutmut has copied
        )
        from support.stores.postgresql_server import access_server

        Served.session = session
        server = None if find_lack() else access_server()  # which those that are forked find, too
        try:
            with warnings.catch_warnings():
                # Threads of the tests before may have left that each warning is an error: what
                # mutmut leaves open would then fail the first test of each change.
                warnings.simplefilter("ignore")
                self._serve()
        finally:
            if server is not None:
                server.close()
        return True


def _prove(session: pytest.Session) -> None:
    """Runs a test of each file as it is run for a change: where there is none, all have to pass."""
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
    """Runs tests that were found before it was forked."""

    def warm_up(self) -> None:
        """Does nothing: the server has found the tests."""

    def run_tests(self, *, mutant_name: str | None, tests: Iterable[str]) -> int:
        """Runs the quickest first, until one fails."""
        self.silence = sys.stdout  # held, or pytest would tell that nobody has closed it
        assert Served.session is not None
        wanted, durations = set(tests), state().duration_by_test
        items = [item for item in Served.session.items if item.nodeid in wanted]
        return _run(Served.session, sorted(items, key=lambda item: durations[item.nodeid]))


class Server(isolation.ForkServerRunner):
    """Finds the tests once, and forks the process that has them for each change."""

    def _forkserver_main(self, work_fd: int, result_fd: int) -> None:
        self.test_runner_class = Runner
        arguments = ["--rootdir=.", "-q", *config().pytest_add_cli_args]
        # Whoever is forked ends at once: what a test has written goes with the test.
        arguments += ["-o", "tmp_path_retention_policy=failed"]
        arguments += config().pytest_add_cli_args_test_selection
        with change_cwd("mutants"), open(os.devnull, "w") as sys.stdout:  # noqa: PTH123
            serve = super()._forkserver_main
            ended = pytest.main(arguments, plugins=[Served(lambda: serve(work_fd, result_fd))])
        if ended != pytest.ExitCode.OK:
            raise RuntimeError(f"pytest ended with {ended} in the server.")

    def _setup_sigchld_pipe(self) -> tuple[int, int]:
        """Proves, when all is ready for the first change, that nothing fails without one."""
        assert Served.session is not None
        _prove(Served.session)
        return super()._setup_sigchld_pipe()


if __name__ == "__main__":
    isolation.ForkServerRunner = Server  # type: ignore[misc]
    cli(prog_name="mutmut")

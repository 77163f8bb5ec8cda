"""Where the command ``vibe`` begins: the version at once, everything else by the group."""

from __future__ import annotations

import sys

_GARBAGE_THRESHOLD = 100_000
"""New objects between two looks for garbage: what is imported is none, and each look costs."""


def main() -> None:
    """Performs what the process was called with, and ends it with an exit code."""
    arguments = sys.argv[1:]
    if arguments and arguments[0] in ("--version", "-V"):
        from vibe_llms import __version__

        print(f"vibe-llms {__version__}")
        return
    import gc

    gc.set_threshold(_GARBAGE_THRESHOLD)
    from vibe_llms.interfaces.cli.running import run

    _leave(run(arguments))


def _leave(code: int) -> None:
    """Ends the process; at once where nobody wants to be told.

    To take every module apart costs as much as an interpreter's start. Whoever has something
    to close (a loop, a log, a library) has registered for the end, and then it is done.
    """
    import atexit
    import os

    if atexit._ncallbacks():
        sys.exit(code)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):  # it has been told already
            code = code or 1
    os._exit(code)


if __name__ == "__main__":
    main()

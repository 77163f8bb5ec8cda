"""Entry point of ``vibe``: prints the version immediately, and passes the rest to the group."""

from __future__ import annotations

import sys

_GARBAGE_THRESHOLD = 100_000
"""Number of new objects between two garbage collections.

Imports create many objects but no garbage, so that frequent collections only cost time.
"""


def main() -> None:
    """Execute the process's command line, and exit with its code."""
    arguments = sys.argv[1:]
    # Without the imports below, which are slow.
    if arguments and arguments[0] in ("--version", "-V"):
        from vibe_llms.foundation.version import __version__

        print(f"vibe-llms {__version__}")
        return
    import gc

    gc.set_threshold(_GARBAGE_THRESHOLD)
    from vibe_llms.foundation import package_finder

    package_finder.install()
    from vibe_llms.foundation import deferred_modules

    deferred_modules.install()
    from vibe_llms.interfaces.cli.command_line import run

    code = run(arguments)
    gc.freeze()  # skips garbage collection at exit, which takes half as long as a start
    sys.exit(code)


def serve_gateway() -> None:
    """Execute ``vibe serve gateway``, installed as ``desid``."""
    sys.argv[1:1] = ["serve", "gateway"]
    main()


def serve_agents() -> None:
    """Execute ``vibe serve agents``, installed as ``agentd``."""
    sys.argv[1:1] = ["serve", "agents"]
    main()


def serve_tools() -> None:
    """Execute ``vibe serve tools``, installed as ``mcpd``."""
    sys.argv[1:1] = ["serve", "tools"]
    main()


if __name__ == "__main__":
    main()

"""Where the command ``vibe`` begins: the version at once, everything else by the group."""

from __future__ import annotations

import sys

_GARBAGE_THRESHOLD = 100_000
"""New objects between two looks for garbage: what is imported is none, and each look costs."""


def main() -> None:
    """Perform what the process was called with, and ends it with an exit code."""
    arguments = sys.argv[1:]
    # This needs nothing of what the rest takes long to import.
    if arguments and arguments[0] in ("--version", "-V"):
        from vibe_llms.foundation.version import __version__

        print(f"vibe-llms {__version__}")
        return
    import gc

    gc.set_threshold(_GARBAGE_THRESHOLD)
    from vibe_llms.interfaces.cli.running import run

    code = run(arguments)
    gc.freeze()  # the last looks for garbage cost as much as half an interpreter's start
    sys.exit(code)


def serve_gateway() -> None:
    """Perform ``vibe serve gateway``: what ``desid`` is."""
    sys.argv[1:1] = ["serve", "gateway"]
    main()


def serve_agents() -> None:
    """Perform ``vibe serve agents``: what ``agentd`` is."""
    sys.argv[1:1] = ["serve", "agents"]
    main()


def serve_tools() -> None:
    """Perform ``vibe serve tools``: what ``mcpd`` is."""
    sys.argv[1:1] = ["serve", "tools"]
    main()


if __name__ == "__main__":
    main()

"""Where the command ``vibe`` begins: the version at once, everything else by the group."""

from __future__ import annotations

import sys


def main() -> None:
    """Performs what the process was called with, and ends it with an exit code."""
    arguments = sys.argv[1:]
    if arguments and arguments[0] in ("--version", "-V"):
        from vibe_llms import __version__

        print(f"vibe-llms {__version__}")
        return
    from vibe_llms.interfaces.cli.running import run

    sys.exit(run(arguments))


if __name__ == "__main__":
    main()

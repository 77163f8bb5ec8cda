"""``python -m vibe_llms`` is the command ``vibe``."""

from vibe_llms.interfaces.cli.entry import main

if __name__ == "__main__":
    main()

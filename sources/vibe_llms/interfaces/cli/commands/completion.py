"""``vibe completion``."""

from __future__ import annotations

import click

from vibe_llms.interfaces.cli.options import command


@command("completion")
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
def completion(shell: str) -> None:
    """Print a script for shell completion of commands, ids, models and providers. To install it:

    \b
        bash:  echo 'eval "$(vibe completion bash)"' >> ~/.bashrc
        zsh:   echo 'eval "$(vibe completion zsh)"' >> ~/.zshrc
        fish:  vibe completion fish > ~/.config/fish/completions/vibe.fish
    """
    from click.shell_completion import get_completion_class

    from vibe_llms.interfaces.cli.completing import Bash
    from vibe_llms.interfaces.cli.group import produce_group

    cls = Bash if shell == "bash" else get_completion_class(shell)
    assert cls is not None
    click.echo(cls(produce_group(), {}, "vibe", "_VIBE_COMPLETE").source())

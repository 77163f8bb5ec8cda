"""``vibe credentials``: API keys issued by the vendors of providers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from vibe_llms.interfaces.cli.access import load_configuration, require_provider
from vibe_llms.interfaces.cli.options import PROVIDER, Command, Group, json_option
from vibe_llms.interfaces.cli.output import note, write_json, write_table

if TYPE_CHECKING:
    from pathlib import Path

    from vibe_llms.foundation.secrets import Secret

_KEY_CHARACTERS: Final = 100_000


@click.group("credentials", cls=Group, default="list")
def credentials() -> None:
    """Store the API keys of providers. Without a command: list.

    Keys are stored in the system's keyring if the package keyring is installed and a keyring
    exists, otherwise in a file that only you can read. Environment variables and api_key_file take
    precedence.
    """


@credentials.command("set", cls=Command)
@click.argument("provider", type=PROVIDER)
def set_(provider: str) -> None:
    """Store the key of PROVIDER, typed at a hidden prompt or read from standard input.

    The key is not an argument, because other users can read command lines.
    """
    from vibe_llms.providers.credentials import ensure_key
    from vibe_llms.providers.key_storage import store_key

    name, directory = _find_directory(provider)
    key = ensure_key(_read_key(name), f"the key of {name}")
    note(f"Stored in {store_key(name, directory, key)}.")


@credentials.command("list", cls=Command)
@json_option
def list_(as_json: bool) -> None:
    """List the providers whose keys are stored, and where. No key is shown."""
    from vibe_llms.providers.key_storage import find_stored_key

    configuration = load_configuration()
    rows = [
        (name, place)
        for name in configuration.providers
        if (place := find_stored_key(configuration.data_directory / "providers" / name))
    ]
    if as_json:
        write_json([{"provider": name, "place": place} for name, place in rows])
    elif not rows:
        advice = "`vibe credentials set PROVIDER` stores one. `vibe providers` lists providers."
        note(f"No keys are stored; {advice}")
    else:
        write_table(rows, headers=("provider", "stored in"), styles=("cyan", ""))


@credentials.command("remove", cls=Command)
@click.argument("provider", type=PROVIDER)
def remove(provider: str) -> None:
    """Remove the key of PROVIDER."""
    from vibe_llms.exceptions import UnknownNameError
    from vibe_llms.providers.key_storage import delete_key

    name, directory = _find_directory(provider)
    if not delete_key(name, directory):
        raise UnknownNameError(kind="stored key", name=name, detail=f"No key of {name} is stored.")
    note(f"Removed the key of {name}.")


def _find_directory(provider: str) -> tuple[str, Path]:
    """Return the provider's own name and directory. Raises UnknownNameError."""
    configuration = load_configuration()
    name = configuration.follow_aliases(provider)
    require_provider(configuration, name)
    return name, configuration.data_directory / "providers" / name


def _read_key(provider: str) -> Secret:
    import sys

    from vibe_llms.foundation.secrets import Secret

    if not sys.stdin.isatty():
        line = sys.stdin.readline(_KEY_CHARACTERS + 1)
        if len(line) > _KEY_CHARACTERS:
            raise click.UsageError(
                f"The first line of standard input has more than {_KEY_CHARACTERS:,} characters."
            )
        return Secret(line)
    question = f"Key of {provider} (hidden)"
    text: str = click.prompt(question, hide_input=True, err=True)
    return Secret(text)

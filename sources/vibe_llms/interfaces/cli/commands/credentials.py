"""``vibe credentials``: the keys of providers, which a vendor gave out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from vibe_llms.interfaces.cli.access import load_configuration, require_provider
from vibe_llms.interfaces.cli.options import PROVIDER, Command, Group, json_option
from vibe_llms.interfaces.cli.output import note, write_json, write_table

if TYPE_CHECKING:
    from pathlib import Path

    from vibe_llms.foundation.secrets import Secret


@click.group("credentials", cls=Group, default="list")
def credentials() -> None:
    """Keep the keys of providers. By itself: list.

    A key is kept in the system's keyring, where there is one and the package keyring is installed,
    else in a file that only you can read. A variable, or api_key_file, comes before it.
    """


@credentials.command("set", cls=Command)
@click.argument("provider", type=PROVIDER)
def set_(provider: str) -> None:
    """Keep the key of PROVIDER. It is asked for and not shown, or read from standard input.

    It is no argument: others can read a command line.
    """
    from vibe_llms.providers.credentials import ensure_key
    from vibe_llms.providers.key_storage import store_key

    name, directory = _find_directory(provider)
    key = ensure_key(_read_key(name), f"the key of {name}")
    note(f"Kept in {store_key(name, directory, key)}.")


@credentials.command("list", cls=Command)
@json_option
def list_(as_json: bool) -> None:
    """List whose keys are kept, and where. No key is shown."""
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
        advice = "`vibe credentials set PROVIDER` keeps one. `vibe providers` lists them."
        note(f"No key is kept; {advice}")
    else:
        write_table(rows, headers=("provider", "kept in"), styles=("cyan", ""))


@credentials.command("remove", cls=Command)
@click.argument("provider", type=PROVIDER)
def remove(provider: str) -> None:
    """Forget the key of PROVIDER."""
    from vibe_llms.exceptions import UnknownNameError
    from vibe_llms.providers.key_storage import delete_key

    name, directory = _find_directory(provider)
    if not delete_key(name, directory):
        raise UnknownNameError(kind="kept key", name=name, detail=f"No key of {name} is kept.")
    note(f"The key of {name} is forgotten.")


def _find_directory(provider: str) -> tuple[str, Path]:
    """Returns the provider's own name and directory. Raises UnknownNameError."""
    configuration = load_configuration()
    name = configuration.follow_aliases(provider)
    require_provider(configuration, name)
    return name, configuration.data_directory / "providers" / name


def _read_key(provider: str) -> Secret:
    import sys

    from vibe_llms.foundation.secrets import Secret

    if not sys.stdin.isatty():
        return Secret(sys.stdin.readline())
    question = f"The key of {provider}, which is not shown"
    text: str = click.prompt(question, hide_input=True, err=True)
    return Secret(text)

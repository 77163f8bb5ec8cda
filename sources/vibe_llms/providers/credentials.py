"""Where a vendor's key comes from, as a type that does not print."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from vibe_llms.exceptions import (
    AccessError,
    ConfigurationError,
    ConverseError,
    ProviderError,
    ProviderFault,
)
from vibe_llms.foundation.child_environment import remember_key
from vibe_llms.foundation.files import read_secret
from vibe_llms.foundation.secrets import Secret
from vibe_llms.providers.key_storage import read_stored_key


def acquire_key(
    provider: str,
    settings: Mapping[str, object],
    variables: tuple[str, ...],
    directory: Path | None = None,
) -> Secret | None:
    """Returns the key that the settings and the environment amount to, read anew each time.

    In this order: ``api_key``, ``api_key_file`` (the whole file, without white space around),
    the variable that ``api_key_variable`` names, else the vendor's usual ones, else what
    ``vibe credentials set`` has kept.

    Args:
        variables: The vendor's usual environment variables; none where it takes no key.
        directory: The provider's own, where a key may be kept.

    Returns:
        ``None`` where there is no key to be found.

    Raises:
        ConfigurationError: The file cannot be read, or what was found is no key.
    """
    place = f"providers.{provider}"
    if settings.get("api_key"):
        return ensure_key(Secret(str(settings["api_key"])), f"{place}.api_key")
    if path := settings.get("api_key_file"):
        return ensure_key(_read_file(str(path), f"{place}.api_key_file"), str(path))
    named = settings.get("api_key_variable")
    for variable in (str(named),) if named else variables:
        if os.environ.get(variable):
            remember_key(variable)
            return ensure_key(Secret(os.environ[variable]), f"the variable {variable}")
    kept = None if directory is None else read_stored_key(provider, directory)
    return None if kept is None else ensure_key(kept, f"the key that is kept for {provider}")


def advise_key(provider: str, variable: str = "") -> str:
    """Says how a key that is missing is given.

    Args:
        variable: The usual one of the environment; empty where there is none.
    """
    first = f"Set {variable}, or" if variable else "Set"
    return (
        f"{first} api_key_file in [providers.{provider}], or run: vibe credentials set {provider}"
    )


def advise_of_key(error: ConverseError, provider: str, variables: tuple[str, ...]) -> None:
    """Lets the error of a key that the vendor refused say where the key is looked for.

    Args:
        variables: The vendor's usual environment variables; none where it takes no key.
    """
    if not isinstance(error, (ProviderError, AccessError)) or error.remedy:
        return
    if error.fault is ProviderFault.AUTHENTICATION:
        places = (*variables[:1], f"[providers.{provider}]")
        error.detail = error.detail.rstrip(" .") + "."
        error.remedy = f"Check the key, in {' or '.join(places)}."


def _read_file(path: str, place: str) -> Secret:
    try:
        return Secret(read_secret(path))
    except ValueError as error:
        raise ConfigurationError.at(place, str(error)) from None


def ensure_key(found: Secret, place: str) -> Secret:
    """Refuses what no header can carry; says nothing of what it is."""
    text = found.reveal().strip()
    if _is_key(text):
        return Secret(text)
    message = "This is no key: it is empty, or has blanks or unusual characters."
    raise ConfigurationError.at(place, message)


def _is_key(text: str) -> bool:
    return bool(text) and text.isascii() and text.isprintable() and " " not in text

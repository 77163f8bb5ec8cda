"""Look-up of a vendor's key, as a :class:`.Secret`, which is not printed."""

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
    """Look up the key in the settings, the environment and the storage; again at each call.

    The first of these wins: the setting ``api_key``; the file ``api_key_file`` (its whole content,
    stripped of white space); the variable that ``api_key_variable`` names, by default the vendor's
    usual variables; and the key stored by ``vibe credentials set``.

    Args:
        variables: The vendor's usual environment variables; none if it does not use keys.
        directory: The provider's folder, in which a key may be stored.

    Returns:
        ``None`` if there is no key.

    Raises:
        ConfigurationError: The file cannot be read, or the key is invalid.
    """
    place = f"providers.{provider}"
    if settings.get("api_key"):
        return ensure_key(Secret(str(settings["api_key"])), f"{place}.api_key")
    if path := settings.get("api_key_file"):
        return ensure_key(_read_file(str(path), f"{place}.api_key_file"), str(path))
    chosen = settings.get("api_key_variable")
    for variable in (str(chosen),) if chosen else variables:
        if os.environ.get(variable):
            remember_key(variable)
            return ensure_key(Secret(os.environ[variable]), f"the variable {variable}")
    stored = None if directory is None else read_stored_key(provider, directory)
    return None if stored is None else ensure_key(stored, f"the stored key of {provider}")


def advise_key(provider: str, variable: str = "") -> str:
    """Return how to set a missing key.

    Args:
        variable: The usual environment variable; empty without one.
    """
    first = f"Set {variable}, or" if variable else "Set"
    return (
        f"{first} api_key_file in [providers.{provider}], or run: vibe credentials set {provider}"
    )


def advise_of_key(error: ConverseError, provider: str, variables: tuple[str, ...]) -> None:
    """Add to the error of a rejected key where to check the key.

    Args:
        variables: The vendor's usual environment variables; none if it does not use keys.
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


def ensure_key(key: Secret, place: str) -> Secret:
    """Return the key without white space around it. Raise ConfigurationError if it is invalid."""
    text = key.reveal().strip()
    if _is_key(text):
        return Secret(text)
    message = "Invalid key: it is empty, or contains blanks or non-ASCII characters."
    raise ConfigurationError.at(place, message)


def _is_key(text: str) -> bool:
    return bool(text) and text.isascii() and text.isprintable() and " " not in text

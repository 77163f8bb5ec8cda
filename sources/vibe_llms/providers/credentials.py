"""Look-up of a vendor's key, as a type that does not print."""

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
    """Return the key of the settings or the environment, read anew at each call.

    In this order: ``api_key``, ``api_key_file`` (the whole file, stripped of white space), the
    variable that ``api_key_variable`` names, or otherwise the vendor's usual ones, and finally the
    key stored by ``vibe credentials set``.

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
    named = settings.get("api_key_variable")
    for variable in (str(named),) if named else variables:
        if os.environ.get(variable):
            remember_key(variable)
            return ensure_key(Secret(os.environ[variable]), f"the variable {variable}")
    kept = None if directory is None else read_stored_key(provider, directory)
    return None if kept is None else ensure_key(kept, f"the stored key of {provider}")


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
    """Add to the error of a rejected key where the key is looked up.

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


def ensure_key(found: Secret, place: str) -> Secret:
    """Reject a key that cannot be sent in a header; the error does not show it."""
    text = found.reveal().strip()
    if _is_key(text):
        return Secret(text)
    message = "Invalid key: it is empty, or contains blanks or non-ASCII characters."
    raise ConfigurationError.at(place, message)


def _is_key(text: str) -> bool:
    return bool(text) and text.isascii() and text.isprintable() and " " not in text

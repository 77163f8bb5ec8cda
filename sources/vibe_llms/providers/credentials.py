"""Where a vendor's key comes from, as a type that does not print."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from vibe_llms.exceptions import ConfigurationError, Finding
from vibe_llms.secrets import Secret


def acquire_key(
    provider: str, settings: Mapping[str, object], variables: tuple[str, ...]
) -> Secret | None:
    """Returns the key that the settings and the environment amount to, read anew each time.

    In this order: ``api_key``, ``api_key_file`` (the whole file, without white space around),
    the variable that ``api_key_variable`` names, else the vendor's usual ones.

    Args:
        variables: The vendor's usual environment variables; none where it takes no key.

    Returns:
        ``None`` where there is no key to be found.

    Raises:
        ConfigurationError: The file cannot be read, or what was found is no key.
    """
    place = f"providers.{provider}"
    if text := settings.get("api_key"):
        return _ensure_key(str(text), f"{place}.api_key")
    if path := settings.get("api_key_file"):
        try:
            text = Path(str(path)).expanduser().read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not UTF-8"
            raise _refuse(f"{place}.api_key_file", f"{path} cannot be read: {reason}.") from None
        return _ensure_key(text, str(path))
    named = settings.get("api_key_variable")
    for variable in (str(named),) if named else variables:
        if text := os.environ.get(variable):
            return _ensure_key(text, f"the variable {variable}")
    return None


def _ensure_key(text: object, place: str) -> Secret:
    """Refuses what no header can carry; says nothing of what it is."""
    key = str(text).strip()
    if key and key.isascii() and key.isprintable() and " " not in key:
        return Secret(key)
    raise _refuse(place, "This is no key: it is empty, or has blanks or unusual characters.")


def _refuse(place: str, message: str) -> ConfigurationError:
    return ConfigurationError(findings=(Finding(place=place, message=message),))

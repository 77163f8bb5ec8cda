"""Storage of providers' keys: the system's keyring if there is one, else a file.

Only the user can read the file. If the keyring has the key, an empty marker file says so. Without
it, the keyring is not queried, since that may prompt the user.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from types import ModuleType
from typing import Final

from vibe_llms.exceptions import StoreError
from vibe_llms.foundation.files import read_file, replace_file, warn_of_readers
from vibe_llms.foundation.secrets import Secret

SERVICE: Final = "vibe-llms"
"""Service name in the keyring; each key's user name is its provider."""

_FILE: Final = "key"
_KEYRING_MARKER: Final = "key-in-keyring"


def store_key(provider: str, directory: Path, key: Secret) -> str:
    """Store the key of a provider, or replace it; return a description of the location.

    Args:
        directory: The provider's data folder.

    Raises:
        StoreError: The key cannot be stored.
    """
    keyring = _access_keyring()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if keyring is not None:
            keyring.set_password(SERVICE, provider, key.reveal())
            _write(directory / _KEYRING_MARKER, b"")
            # Deleted last: until now it was the only copy.
            (directory / _FILE).unlink(missing_ok=True)
            return "the system's keyring"
        _write(directory / _FILE, key.reveal().encode("ascii"))
        (directory / _KEYRING_MARKER).unlink(missing_ok=True)
    except Exception as error:  # each keyring backend raises different errors
        text = " ".join(f"{type(error).__name__}: {error}".split())
        raise StoreError(
            path=str(directory),
            detail=f"The key of {provider} cannot be stored: {text.replace(key.reveal(), '***')}.",
            remedy="Set it in an environment variable, or in a file that api_key_file names.",
        ) from None  # the original error may contain the key
    return f"{directory / _FILE}, which only you can read"


def find_stored_key(directory: Path) -> str:
    """Describe the location of a key; empty without one. Does not query the keyring."""
    if (directory / _KEYRING_MARKER).is_file():
        return "the system's keyring"
    return str(directory / _FILE) if (directory / _FILE).is_file() else ""


def read_stored_key(provider: str, directory: Path) -> Secret | None:
    """Return the stored key of a provider; ``None`` if it is missing or unreadable."""
    if (directory / _KEYRING_MARKER).is_file():
        keyring = _access_keyring()
        with contextlib.suppress(Exception):  # treat a locked keyring as if it had no key
            text = keyring.get_password(SERVICE, provider) if keyring is not None else None
            return None if text is None else Secret(text)
        return None
    try:
        text = read_file(directory / _FILE).decode()
        warn_of_readers(directory / _FILE)
        return Secret(text)
    except (OSError, UnicodeDecodeError):
        return None


def delete_key(provider: str, directory: Path) -> bool:
    """Delete the key of a provider; return whether there was one. Raises StoreError."""
    was_stored = bool(find_stored_key(directory))
    try:
        if (directory / _KEYRING_MARKER).is_file() and (keyring := _access_keyring()) is not None:
            keyring.delete_password(SERVICE, provider)
        for name in (_KEYRING_MARKER, _FILE):
            (directory / name).unlink(missing_ok=True)
    except Exception as error:
        raise StoreError(
            path=str(directory),
            detail=f"The key of {provider} cannot be removed: {type(error).__name__}.",
            remedy=f"Remove the entry {SERVICE!r} of {provider!r} in the keyring's own program.",
        ) from error
    return was_stored


def _access_keyring() -> ModuleType | None:
    """Return the keyring package, if it is installed and the system has a keyring."""
    try:
        import keyring
    except ImportError:
        return None
    try:
        return keyring if keyring.get_keyring().priority > 0 else None
    except Exception:  # if the keyring does not work, use a file
        return None


def _write(path: Path, data: bytes) -> None:
    """Write a file that only its owner can read."""
    replace_file(path, data, mode=0o600)

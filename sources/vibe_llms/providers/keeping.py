"""Keys that are kept for a provider: in the system's keyring where there is one, else in a file.

The file is the user's alone. In its place an empty file says that the keyring has the key, so that
nobody asks the keyring, which may ask its user, for what it does not have.
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
"""Under what the keyring has our keys, each by the name of its provider."""

_FILE: Final = "key"
_MARK: Final = "key-in-keyring"


def keep_key(provider: str, directory: Path, key: Secret) -> str:
    """Keeps the key of a provider, in place of an earlier one; returns where, for people.

    Args:
        directory: The provider's own, for what must last.

    Raises:
        StoreError: It cannot be kept.
    """
    keyring = _access_keyring()
    try:
        directory.mkdir(parents=True, exist_ok=True)
        if keyring is not None:
            keyring.set_password(SERVICE, provider, key.reveal())
            _write(directory / _MARK, b"")
            (directory / _FILE).unlink(missing_ok=True)  # until now it was the only copy
            return "the system's keyring"
        _write(directory / _FILE, key.reveal().encode("ascii"))
        (directory / _MARK).unlink(missing_ok=True)
    except Exception as error:  # a keyring has errors of its own, one set for each system
        text = " ".join(f"{type(error).__name__}: {error}".split())
        raise StoreError(
            path=str(directory),
            detail=f"The key of {provider} cannot be kept: {text.replace(key.reveal(), '***')}.",
            remedy="Put it into a variable, or into a file that api_key_file names.",
        ) from None  # it may hold the key
    return f"{directory / _FILE}, which only you can read"


def find_kept(directory: Path) -> str:
    """Returns where a key is kept, for people; empty where none is. Asks no keyring."""
    if (directory / _MARK).is_file():
        return "the system's keyring"
    return str(directory / _FILE) if (directory / _FILE).is_file() else ""


def read_kept(provider: str, directory: Path) -> Secret | None:
    """Returns the key that is kept for a provider; ``None`` where none is, or cannot be read."""
    if (directory / _MARK).is_file():
        keyring = _access_keyring()
        with contextlib.suppress(Exception):  # a locked keyring is as good as none
            text = keyring.get_password(SERVICE, provider) if keyring is not None else None
            return None if text is None else Secret(text)
        return None
    try:
        text = read_file(directory / _FILE).decode()
        warn_of_readers(directory / _FILE)
        return Secret(text)
    except (OSError, UnicodeDecodeError):
        return None


def forget_key(provider: str, directory: Path) -> bool:
    """Removes the key of a provider; returns whether one was kept. Raises StoreError."""
    was_kept = bool(find_kept(directory))
    try:
        if (directory / _MARK).is_file() and (keyring := _access_keyring()) is not None:
            keyring.delete_password(SERVICE, provider)
        for name in (_MARK, _FILE):
            (directory / name).unlink(missing_ok=True)
    except Exception as error:
        raise StoreError(
            path=str(directory),
            detail=f"The key of {provider} cannot be removed: {type(error).__name__}.",
            remedy=f"Remove the entry {SERVICE!r} of {provider!r} in the keyring's own program.",
        ) from error
    return was_kept


def _access_keyring() -> ModuleType | None:
    """Returns the package keyring, where it is installed and the system has a keyring."""
    try:
        import keyring
    except ImportError:
        return None
    try:
        return keyring if keyring.get_keyring().priority > 0 else None
    except Exception:  # whatever is wrong with it, a file does
        return None


def _write(path: Path, data: bytes) -> None:
    """Writes a file that is its owner's alone."""
    replace_file(path, data, mode=0o600)

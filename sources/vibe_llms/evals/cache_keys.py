"""Keys of cached results: digests of all that decides them."""

from __future__ import annotations

import hashlib
import stat
from typing import Final

from vibe_llms.foundation.files import expand_home, resolve_links
from vibe_llms.telemetry.prices import OWN_MACHINES

_SEPARATOR: Final = "\0"


def digest_parts(*parts: str) -> str:
    """Return the digest of texts, in lower-case hexadecimal digits."""
    return hashlib.sha256(_SEPARATOR.join(parts).encode("utf-8", "surrogatepass")).hexdigest()


def digest_model_file(provider: str, name: str) -> str:
    """Return what identifies the file of a model on this machine; empty for other models.

    Such a file is named by a relative path, and edited under its name.
    """
    if provider not in OWN_MACHINES:
        return ""
    path = expand_home(name)
    try:
        status = path.stat()
    except (OSError, ValueError):
        return ""
    if not stat.S_ISREG(status.st_mode):
        return ""
    return f"{resolve_links(path)}:{status.st_size}:{status.st_mtime_ns}"

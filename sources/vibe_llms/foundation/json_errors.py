"""What says that bytes are no JSON, or none of the kind that is wanted.

Bytes that come from outside may be anything: also no text, or nested too deeply to be read.
"""

from __future__ import annotations

from typing import Final

import msgspec

UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What decoding JSON raises; to be caught together."""

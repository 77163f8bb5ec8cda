"""Errors of decoding JSON.

Bytes from outside may be anything: not a text, or nested too deeply.
"""

from __future__ import annotations

from typing import Final

import msgspec

UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Errors of decoding JSON; to be caught together."""

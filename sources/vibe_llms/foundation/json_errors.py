"""Exceptions that decoding JSON can raise.

Bytes from outside may be anything: not JSON, not UTF-8, or nested too deeply.
"""

from __future__ import annotations

from typing import Final

import msgspec

UNREADABLE: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""All exceptions for bytes that are not JSON, for an ``except`` clause."""

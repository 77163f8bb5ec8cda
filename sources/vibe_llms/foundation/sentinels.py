"""Sentinel for missing values, where ``None`` has another meaning."""

from __future__ import annotations

import enum
from typing import Final, TypeGuard, TypeVar

_T = TypeVar("_T")


class Absence(enum.Enum):
    """The type of :data:`ABSENT`; an enumeration, so that type checkers can narrow it."""

    ABSENT = "absent"

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = Absence.ABSENT
"""The value is missing, as opposed to ``None``, ``False`` or an empty value."""


def is_absent(value: _T | Absence) -> TypeGuard[Absence]:
    """Return whether a value is missing."""
    return value is ABSENT

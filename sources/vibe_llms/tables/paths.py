"""Paths of values in tables."""

from __future__ import annotations

from typing import TypeAlias

KeyPath: TypeAlias = tuple[str | int, ...]
"""Path of a value: keys of tables and, in lists, indices from 0."""


def write_path(path: KeyPath) -> str:
    """Format a path, such as ``models[2].pattern``."""
    parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return "".join(parts).removeprefix(".")

"""Disjoint buckets from vendors' token counts: no token is counted twice.

Most vendors include cached, audio and reasoning tokens in their totals; some count them separately.
The sum over everything, if there is one, shows which tokens are separate. So does a part that
exceeds its total.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping

Counts = Mapping[str, int | None]


def read_counts(usage: object, *names: str) -> list[int | None]:
    """Return counts of a usage object, or of a part of one; ``None`` for missing or invalid ones.

    Args:
        usage: The object; any other value has no counts, as parts are often missing.
    """
    if not isinstance(usage, dict):
        return [None] * len(names)
    counts = list(map(usage.get, names))
    for value in counts:
        if value is not None and not (value.__class__ is int and 0 <= value < 2**63):
            return list(map(_read_value, counts))
    return counts  # the usual case: all are valid


def _read_value(value: object) -> int | None:
    """Return a count, also one that a gateway wrote as ``12.0``; ``True`` is not a count."""
    if value.__class__ is int and isinstance(value, int):
        return value if 0 <= value < 2**63 else None
    is_whole = isinstance(value, float) and value.is_integer() and 0 <= value < 2**53
    return int(value) if is_whole and isinstance(value, float) else None


def read_count(usage: object, name: str) -> int | None:
    """Return one count of a usage object; see :func:`read_counts`."""
    return read_counts(usage, name)[0]


def find_separate(
    total: int | None, wholes: Collection[int | None], parts: Counts
) -> frozenset[str]:
    """Return the names of the parts that are not included in the totals, by the vendor's sum.

    Args:
        total: The vendor's sum over everything.
        wholes: The totals: input and output.
        parts: Counts that may be included in the totals or not. If several combinations explain the
            sum, the first one is chosen.
    """
    if total is None or None in wholes or not any(parts.values()):
        return frozenset()
    known = {name: count for name, count in parts.items() if count}
    excess = total - sum(count or 0 for count in wholes)
    for size in range(1, len(known) + 1) if excess > 0 else ():  # prefer fewer parts
        for names in itertools.combinations(known, size):
            if sum(known[name] for name in names) == excess:
                return frozenset(names)
    return frozenset()


def split_count(
    total: int | None, parts: Counts, separate: Collection[str] = ()
) -> tuple[int | None, dict[str, int | None]]:
    """Subtract parts from a total; return the rest, and the parts without overlaps.

    A part that exceeds the total is not included in the total. If only the sum of the parts exceeds
    the total, parts overlap.

    Args:
        separate: The names of parts that are known not to be included in the total.
    """
    if not any(parts.values()):  # as in many answers
        return total, dict(parts)
    remainder, split = total, dict[str, int | None]()
    for name, count in parts.items():
        is_within = count is not None and total is not None and 0 < count <= total
        if not is_within or name in separate or count is None or remainder is None:
            split[name] = count
            continue
        split[name] = min(count, remainder)
        remainder -= min(count, remainder)
    return remainder, split


def add_counts(*counts: int | None) -> int | None:
    """Return the sum of the known counts; ``None`` if all are unknown."""
    known = [count for count in counts if count is not None]
    return sum(known) if known else None

"""Vendors' counts of tokens taken apart, such that no two buckets count the same token.

Most vendors count what was cached, heard or thought within their totals, some beside them: which,
the sum over all tells, where there is one, and a part that exceeds its whole.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping

Counts = Mapping[str, int | None]


def read_counts(account: object, *names: str) -> list[int | None]:
    """Returns counts of an account, or of a part of one; ``None`` for what is not there, or none.

    Args:
        account: As JSON has it; mostly there is no part, so that nothing at all may be given.
    """
    if not isinstance(account, dict):
        return [None] * len(names)
    counts = list(map(account.get, names))
    for value in counts:
        if value is not None and not (value.__class__ is int and 0 <= value < 2**63):
            return list(map(_read_value, counts))
    return counts  # as they mostly are


def _read_value(value: object) -> int | None:
    """Returns a count that is written as ``12.0``, as some gateways do; ``True`` counts nothing."""
    if value.__class__ is int and isinstance(value, int):
        return value if 0 <= value < 2**63 else None
    is_whole = isinstance(value, float) and value.is_integer() and 0 <= value < 2**53
    return int(value) if is_whole and isinstance(value, float) else None


def read_count(account: object, name: str) -> int | None:
    """Returns one count of an account; see :func:`read_counts`."""
    return read_counts(account, name)[0]


def find_beside(total: int | None, wholes: Collection[int | None], parts: Counts) -> frozenset[str]:
    """Returns the names of the parts that the sum over all counts beside the wholes.

    Args:
        total: The vendor's sum over all.
        wholes: What it counts: input and output.
        parts: What may be within the wholes or beside; of two that fit, the first.
    """
    if total is None or None in wholes or not any(parts.values()):
        return frozenset()
    known = {name: count for name, count in parts.items() if count}
    beyond = total - sum(count or 0 for count in wholes)
    for size in range(1, len(known) + 1) if beyond > 0 else ():  # the fewest that explain it
        for names in itertools.combinations(known, size):
            if sum(known[name] for name in names) == beyond:
                return frozenset(names)
    return frozenset()


def split_count(
    whole: int | None, parts: Counts, beside: Collection[str] = ()
) -> tuple[int | None, dict[str, int | None]]:
    """Returns what is in no part of a whole, and the parts without what an earlier one has.

    A part that exceeds the whole alone was counted beside it; parts that do so together overlap.

    Args:
        beside: The names of parts which are known to be counted beside the whole.
    """
    if not any(parts.values()):  # as of many answers
        return whole, dict(parts)
    rest, split = whole, dict[str, int | None]()
    for name, count in parts.items():
        is_within = count is not None and whole is not None and 0 < count <= whole
        if not is_within or name in beside or count is None or rest is None:
            split[name] = count
            continue
        split[name] = min(count, rest)
        rest -= min(count, rest)
    return rest, split

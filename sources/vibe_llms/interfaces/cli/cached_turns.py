"""Use of prompt caches: a table for people, a document for programs."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from vibe_llms.foundation.money import write_dollars
from vibe_llms.interfaces.cli.output import note, write_moment, write_table

if TYPE_CHECKING:
    from vibe_llms.telemetry.cached_turns import CachedTurn

_UNKNOWN: Final = "?"
_HEADERS: Final = ("message", "time", "model", "read", "written", "uncached", "share", "saved",
                   "prefix")  # fmt: skip


def write_cached_turns(turns: Sequence[CachedTurn]) -> None:
    """Write a table with one row for each answer, and a summary on standard error."""
    if not turns:
        note("No answer of this conversation has a usage.")
        return
    write_table([_compose_row(turn) for turn in turns], headers=_HEADERS)
    note(_summarize(turns))


def compose_document(turns: Sequence[CachedTurn]) -> dict[str, Any]:
    """Return the turns for programs: amounts as exact texts, ``None`` for unknown values."""
    import attrs

    documents = [
        {**attrs.asdict(turn), "saved": None if turn.saved is None else str(turn.saved)}
        for turn in turns
    ]
    saved = _add_up(turns)
    return {"saved": None if saved is None else str(saved), "currency": "USD", "turns": documents}


def _compose_row(turn: CachedTurn) -> list[str]:
    counts = (turn.read, turn.written, turn.uncached)
    share = _UNKNOWN if turn.share is None else f"{turn.share:.0%}"
    prefix = f"broken: {'; '.join(turn.causes)}" if turn.is_broken else ""
    return [
        f"[{turn.index}]",
        write_moment(turn.at),
        turn.model,
        *(_UNKNOWN if count is None else f"{count:,}" for count in counts),
        share,
        _write_amount(turn.saved),
        prefix,
    ]


def _write_amount(amount: Decimal | None) -> str:
    if amount is None:
        return _UNKNOWN
    return f"-{write_dollars(-amount)}" if amount < 0 else write_dollars(amount)


def _add_up(turns: Sequence[CachedTurn]) -> Decimal | None:
    """Return the sum of the known savings; ``None`` if none is known."""
    known = [turn.saved for turn in turns if turn.saved is not None]
    return sum(known, Decimal(0)) if known else None


def _summarize(turns: Sequence[CachedTurn]) -> str:
    if not any(turn.read or turn.written for turn in turns):
        return "No prefix was cached. Some vendors, such as Anthropic, cache only marked prefixes."
    read = sum(turn.read or 0 for turn in turns)
    total = read + sum((turn.written or 0) + (turn.uncached or 0) for turn in turns)
    broken = sum(turn.is_broken for turn in turns)
    parts = [f"{read:,} of {total:,} input tokens were read from a cache ({read / total:.0%})"]
    saved = _add_up(turns)
    if saved is not None:
        parts.append(f"{_write_amount(saved)} saved")
    parts.append(f"prefix broken {broken} {'time' if broken == 1 else 'times'}")
    return "; ".join(parts) + "."

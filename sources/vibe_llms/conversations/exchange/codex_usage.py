"""Numbers of tokens in sessions of Codex, and the turns of the model that they belong to.

Codex stores the numbers after the items of an answer; versions before 0.50 store them before.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from vibe_llms.conversations.exchange.drafts import (
    Draft,
    read_count,
    read_table,
    read_text,
    write_json,
)
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.messages.canisters import AssistantCanister, InvocationCanister, StopReason, Usage


@define
class _Turn:
    """One turn of the model.

    Attributes:
        positions: The positions of its canisters.
        usage: Its numbers of tokens.
        response_id: The id of the response, if it is stored.
    """

    positions: list[int] = attrs.field(factory=list)
    usage: Usage | None = None
    response_id: str | None = None


@define
class TurnLedger:
    """Turns of the model so far, with their numbers of tokens.

    Attributes:
        turns: The turns.
        is_announced: Whether an event has shown a part of an answer whose item is still to come.
    """

    turns: list[_Turn] = attrs.field(factory=list)
    is_announced: bool = False
    _total: object = None
    _pending: _Turn | None = None
    _is_unpaid: bool = False
    _is_covered: bool = False

    def begin_turn(self) -> None:
        """Begin a turn of the model."""
        self.turns.append(self._pending or _Turn())
        self._is_covered = self._is_covered or self._pending is not None
        self._is_unpaid = not self._is_covered
        self._pending = None

    def begin_question(self) -> None:
        """Begin a turn of the user; numbers so far do not belong to the next answer."""
        self._pending, self._is_covered, self._is_unpaid = None, False, False

    def count(self, usage: object, total: object, response_id: object = None) -> bool:
        """Read the numbers of an answer; return whether they are new.

        Args:
            usage: The numbers of the answer.
            total: The numbers of the session so far; an event that repeats them is not new.
            response_id: The id of the response, if it is stored.
        """
        numbers = read_table(usage)
        if total == self._total or not any(map(read_count, numbers.values())):
            return False
        self._total = total
        if not (
            read_count(numbers.get("input_tokens")) or read_count(numbers.get("output_tokens"))
        ):
            return False  # an estimate after a compaction
        if self._is_unpaid and not self.is_announced:
            turn = self.turns[-1]
        else:
            turn = self._pending = _Turn()
        turn.usage, turn.response_id = _read_usage(numbers), read_text(response_id) or None
        self._is_unpaid = self._is_covered = False
        return True

    def settle(self, draft: Draft) -> None:
        """Write the numbers into the origins of the answers."""
        for turn in self.turns:
            canisters = [draft.canisters[position] for position in turn.positions]
            is_call = any(each.role == "invocation" for each in canisters)
            stop_reason = StopReason.INVOCATION if is_call else StopReason.ANSWERED
            for position, canister in zip(turn.positions, canisters, strict=True):
                if not isinstance(canister, (AssistantCanister, InvocationCanister)):
                    continue
                if turn.usage is not None and canister.origin is not None:
                    origin = attrs.evolve(
                        canister.origin,
                        usage=turn.usage,
                        stop_reason=stop_reason,
                        response_id=turn.response_id,
                    )
                    draft.canisters[position] = attrs.evolve(canister, origin=origin)


def _read_usage(usage: Mapping[str, Any]) -> Usage:
    """Read the numbers of tokens.

    The input includes the parts that were read from or written to the cache, the output includes
    the reasoning.
    """
    total, cached, written = (
        read_count(usage.get(f"{name}input_tokens")) for name in ("", "cached_", "cache_write_")
    )
    output = read_count(usage.get("output_tokens"))
    reasoning = read_count(usage.get("reasoning_output_tokens"))
    rest = None if total is None else max(0, total - (cached or 0) - (written or 0))
    return Usage(
        input_tokens=rest,
        cache_read_tokens=cached,
        cache_write_tokens=written,
        output_tokens=None if output is None else max(0, output - (reasoning or 0)),
        reasoning_tokens=reasoning,
        native=write_json(usage),
    )

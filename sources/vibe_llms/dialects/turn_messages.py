"""Conversations in protocols where a turn of the model is one message: its text and its calls."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any, TypeAlias

import attrs

from vibe_llms.dialects.history import HistoryEntry, RepairedHistory, belongs, locate
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.plain import OURS
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.messages.canisters import (
    AnyCanister,
    AssistantCanister,
    DocumentCanister,
    InvocationCanister,
    ResultCanister,
    SupervisorCanister,
    UserCanister,
)

InputCanister: TypeAlias = UserCanister | SupervisorCanister | DocumentCanister | ResultCanister
_TurnEntry: TypeAlias = tuple[AnyCanister, int, str | None]
"""A canister, its position, and its text if it is plain."""


@define
class TurnMessagesWriter(abc.ABC):
    """Writes a repaired conversation; a dialect adds calls, results and other contents.

    Attributes:
        ledger: Records losses.
        empty_content: The content of a message that has only calls.
        messages: The messages so far.
        positions: For each message, the position of its canister.
        later_messages: Messages that follow the last result of a turn, with their positions.
    """

    ledger: Ledger
    empty_content: str | None
    messages: list[dict[str, Any]] = attrs.field(factory=list, init=False)
    positions: list[int] = attrs.field(factory=list, init=False)
    later_messages: list[tuple[dict[str, Any], int]] = attrs.field(factory=list, init=False)

    def write(self, history: RepairedHistory) -> None:
        """Write a whole conversation; turns are collected until they end."""
        messages, positions, turn = self.messages, self.positions, list[_TurnEntry]()
        write_call, write_result = self._write_plain_call, self._write_plain_result
        canister: Any
        for canister, position, text, following in history.walk():
            kind = type(canister)
            if turn and (kind is UserCanister or not belongs(turn[-1][0], canister)):
                self._end_turn(turn)
            message: dict[str, Any] | None = None
            if kind is UserCanister:
                if text is not None:
                    message = {"role": "user", "content": text}
            elif kind is AssistantCanister or kind is InvocationCanister:
                if turn:
                    pass
                elif kind is InvocationCanister:
                    if (
                        type(following) is ResultCanister
                        and following.owner is OURS
                        and (call := write_call(canister)) is not None
                    ):
                        content = self.empty_content
                        message = {"role": "assistant", "content": content, "tool_calls": [call]}
                elif text and type(following) is UserCanister:  # most answers are one text
                    message = {"role": "assistant", "content": text}
                if message is None:
                    turn.append((canister, position, text))
                    continue
            elif kind is ResultCanister:
                if canister.owner is not OURS:
                    turn.append((canister, position, text))
                    continue
                if text is not None and not canister.is_error:
                    message = write_result(canister, text)
            if self.later_messages and kind is not ResultCanister:
                self._write_later_messages()
            messages.append(message or self._write_input(canister, position))
            positions.append(position)
        if turn:
            self._end_turn(turn)
        self._write_later_messages()

    def _end_turn(self, turn: list[_TurnEntry]) -> None:
        if self.later_messages:
            self._write_later_messages()
        message = self._write_plain_turn(turn)
        if message is None:
            message = self.write_turn([HistoryEntry(each, locate(at)) for each, at, _ in turn])
        if message is not None:
            self.messages.append(message)
            self.positions.append(turn[0][1])
        turn.clear()

    def _write_plain_turn(self, turn: Sequence[_TurnEntry]) -> dict[str, Any] | None:
        """Return the message of a turn of a plain text, calls, or both; ``None`` for any other."""
        content: str | None = None
        calls: list[JsonObject] = []
        for canister, _, text in turn:
            if type(canister) is InvocationCanister:
                call = self._write_plain_call(canister)
                if call is None:
                    return None
                calls.append(call)
            elif calls or content or type(canister) is not AssistantCanister or not text:
                return None
            else:
                content = text
        content = content or self.empty_content
        message: dict[str, Any] = {"role": "assistant", "content": content}
        if calls:
            message["tool_calls"] = calls
        return message

    def _write_later_messages(self) -> None:
        self.messages += [message for message, _ in self.later_messages]
        self.positions += [position for _, position in self.later_messages]
        self.later_messages = []

    @abc.abstractmethod
    def _write_plain_call(self, canister: InvocationCanister) -> dict[str, Any] | None:
        """Return the entry of a plain call; ``None`` for any other."""

    @abc.abstractmethod
    def _write_plain_result(self, canister: ResultCanister, text: str) -> dict[str, Any] | None:
        """Return the message of a successful result of one text; ``None`` if it is not plain."""

    @abc.abstractmethod
    def write_turn(self, turn: Sequence[HistoryEntry]) -> dict[str, Any] | None:
        """Return the message of any turn; ``None`` if no part of it can be sent.

        Calls that a vendor executed, and their results, are withheld.
        """

    @abc.abstractmethod
    def _write_input(self, canister: InputCanister, position: int) -> dict[str, Any]:
        """Return the message of any other canister."""

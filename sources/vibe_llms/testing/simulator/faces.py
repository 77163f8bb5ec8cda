"""What the server asks of each protocol, and what it hands to it."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any, Protocol

import attrs

from vibe_llms.testing.simulator.asking import Ask
from vibe_llms.testing.simulator.complaints import Complaint
from vibe_llms.testing.simulator.faults import Conditions
from vibe_llms.testing.simulator.scripts import ScriptedAnswer
from vibe_llms.values import frozen

LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


@frozen
class Frame:
    """One event of a stream.

    Attributes:
        data: A JSON object, or a text that is sent as it is.
        event: The name of the event, where the vendor writes one.
        ends: Whether it says that the stream is complete.
    """

    data: Mapping[str, Any] | str = attrs.field(hash=False)
    event: str = ""
    ends: bool = False


def produce_minting() -> Callable[[str, int], str]:
    """Produces what mints ids: unlike each other, and the same in each run."""
    counter = itertools.count(1)

    def mint(prefix: str, length: int) -> str:
        number = int.from_bytes(hashlib.sha512(f"{prefix}{next(counter)}".encode()).digest(), "big")
        letters = []
        for _ in range(length):
            number, index = divmod(number, len(LETTERS))
            letters.append(LETTERS[index])
        return prefix + "".join(letters)

    return mint


@frozen(kw_only=True)
class Setting:
    """One request as the server received it.

    Attributes:
        path: Without what chooses conditions.
        query: The query's parameters.
        headers: With names in lower case.
        body: The JSON object that came; empty where none came.
        conditions: What is to go wrong.
        mint: From a prefix and a length, a new id.
        now: Seconds since the epoch.
        names: What the path names: ``model``, ``deployment``.
        identity: The request's id.
        stored: Responses that the vendor keeps, with their items, by their ids.
    """

    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: Mapping[str, Any]
    conditions: Conditions
    mint: Callable[[str, int], str]
    now: int
    names: Mapping[str, str]
    identity: str
    stored: MutableMapping[str, Any] = attrs.field(factory=dict, repr=False)


class Face(Protocol):
    """A module that speaks one protocol."""

    framing: str
    """How the events of its streams are written: ``sse`` or ``ndjson``."""

    @staticmethod
    def produce_headers(setting: Setting) -> dict[str, str]:
        """Produces the vendor's own headers of an answer."""

    @staticmethod
    def check_credentials(setting: Setting) -> None:
        """Refuses who has no key."""

    @staticmethod
    def overflow(ask: Ask, limit: int) -> Complaint:
        """Produces the refusal of a prompt that is longer than `limit` tokens."""

    @staticmethod
    def map_status(complaint: Complaint) -> int:
        """The vendor's own status of HTTP for a complaint."""

    @staticmethod
    def check(setting: Setting) -> None:
        """Refuses what the vendor would refuse, with a complaint."""

    @staticmethod
    def read(setting: Setting) -> Ask:
        """Reads a request that was checked."""

    @staticmethod
    def render(turn: ScriptedAnswer, ask: Ask, setting: Setting) -> dict[str, Any]:
        """Writes a whole answer."""

    @staticmethod
    def stream(turn: ScriptedAnswer, ask: Ask, setting: Setting) -> Iterator[Frame]:
        """Writes the events of an answer."""

    @staticmethod
    def complain(complaint: Complaint, setting: Setting) -> dict[str, Any]:
        """Writes an error."""

    @staticmethod
    def interrupt(complaint: Complaint, setting: Setting) -> Frame:
        """Writes an error in the middle of a stream."""

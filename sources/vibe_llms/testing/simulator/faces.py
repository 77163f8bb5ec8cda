"""Interface between the server and each protocol."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any

import attrs

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.testing.simulator.asks import Ask
from vibe_llms.testing.simulator.complaints import SimulatedRefusal
from vibe_llms.testing.simulator.faults import Conditions
from vibe_llms.testing.simulator.scripts import ScriptedAnswer

LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


@frozen
class SimulatedFrame:
    """One event of a stream.

    Attributes:
        data: A JSON object, or a text that is sent unchanged.
        event: The name of the event, if the vendor writes one.
        ends: True if it completes the stream.
    """

    data: Mapping[str, Any] | str = attrs.field(hash=False)
    event: str = ""
    ends: bool = False


def produce_minting() -> Callable[[str, int], str]:
    """Return a function that creates ids: unique, and the same in each run."""
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
class SimulatedRequest:
    """A request as received by the server.

    Attributes:
        path: Without the part that sets conditions.
        query: The query's parameters.
        headers: With names in lower case.
        body: The received JSON object; empty without one.
        conditions: The faults and quirks.
        mint: Creates a new id from a prefix and a length.
        now: Seconds since the epoch.
        names: Names in the path: ``model``, ``deployment``.
        identity: The request's id.
        stored: Responses that the vendor stores, with their items, by their ids.
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


def _map_overload(complaint: SimulatedRefusal) -> int:
    """Return the status of an overload; most vendors have no special one."""
    return 503 if complaint.kind == "overloaded" else complaint.status


@frozen(kw_only=True, eq=False)
class SimulatedFace:
    """Implementation of one protocol.

    Attributes:
        check: Refuses invalid requests with a complaint.
        read: Reads a request that was checked.
        render: Writes a whole answer.
        stream: Writes the events of an answer.
        complain: Writes an error.
        interrupt: Writes an error in the middle of a stream; by default, the same.
        overflow: Produces the refusal of a prompt that is longer than so many tokens.
        check_credentials: Refuses a request without a valid key.
        produce_headers: Produces the vendor's own headers of an answer.
        map_status: The vendor's own status of HTTP for a complaint.
        framing: Framing of the events of its streams: ``sse`` or ``ndjson``.
    """

    check: Callable[[SimulatedRequest], None]
    read: Callable[[SimulatedRequest], Ask]
    render: Callable[[ScriptedAnswer, Ask, SimulatedRequest], dict[str, Any]]
    stream: Callable[[ScriptedAnswer, Ask, SimulatedRequest], Iterator[SimulatedFrame]]
    complain: Callable[[SimulatedRefusal, SimulatedRequest], dict[str, Any]]
    interrupt: Callable[[SimulatedRefusal, SimulatedRequest], SimulatedFrame] = attrs.field()
    overflow: Callable[[Ask, int], SimulatedRefusal]
    check_credentials: Callable[[SimulatedRequest], None]
    produce_headers: Callable[[SimulatedRequest], dict[str, str]] = lambda _: {}
    map_status: Callable[[SimulatedRefusal], int] = _map_overload
    framing: str = "sse"

    @interrupt.default
    def _complain_in_a_frame(
        self,
    ) -> Callable[[SimulatedRefusal, SimulatedRequest], SimulatedFrame]:
        return lambda complaint, setting: SimulatedFrame(self.complain(complaint, setting))

"""Simulated protocols: the interface between the server and the implementation of each protocol."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any

import attrs

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.testing.simulator.faults import Conditions
from vibe_llms.testing.simulator.prompts import SimulatedPrompt
from vibe_llms.testing.simulator.refusals import SimulatedRefusal
from vibe_llms.testing.simulator.scripts import ScriptedAnswer

LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


@frozen
class SimulatedFrame:
    """One event of a stream.

    Attributes:
        data: A JSON object, or a text to send unchanged.
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
        path: The path, without the part that sets conditions.
        query: The query's parameters.
        headers: The headers, with names in lower case.
        body: The received JSON object; empty without one.
        conditions: The faults and quirks.
        mint: Creates a new id from a prefix and a length.
        now: Seconds since the epoch.
        names: Names in the path, such as ``model`` and ``deployment``.
        method: The HTTP method.
        target: The path and the query as they were sent, with all escapes.
        identity: The request's id.
        stored: Responses, files and batches that the vendor stores, by their ids.
        data: The original body.
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
    data: bytes = attrs.field(default=b"", repr=False)
    method: str = "POST"
    target: str = ""


@frozen
class SimulatedMedia:
    """Audio, or another body that is not JSON, as an answer."""

    data: bytes
    content_type: str


def _map_status(refusal: SimulatedRefusal) -> int:
    """Return the status of a refusal; most vendors report an overload as 503, not 529."""
    return 503 if refusal.kind == "overloaded" else refusal.status


@frozen(kw_only=True, eq=False)
class SimulatedProtocol:
    """Implementation of one protocol.

    Attributes:
        check: Validates a request. Raises SimulatedRefusal.
        read: Reads a validated request.
        render: Writes a whole answer.
        stream: Writes the events of an answer.
        write_error: Writes an error.
        write_stream_error: Writes an error in the middle of a stream; by default, like any error.
        overflow: Produces the refusal of a prompt that exceeds a number of tokens.
        use_cache: Reads and writes the vendor's prompt cache; by default it has none.
        check_credentials: Checks the key of a request. Raises SimulatedRefusal.
        produce_headers: Produces the vendor's own headers of an answer.
        produce_error_headers: Produces the further headers of a refusal.
        map_status: Returns the vendor's HTTP status for a refusal.
        framing: Framing of the events of its streams: ``sse``, ``ndjson`` or ``amazon``.
    """

    check: Callable[[SimulatedRequest], None]
    read: Callable[[SimulatedRequest], SimulatedPrompt]
    render: Callable[[ScriptedAnswer, SimulatedPrompt, SimulatedRequest], dict[str, Any]]
    stream: Callable[[ScriptedAnswer, SimulatedPrompt, SimulatedRequest], Iterator[SimulatedFrame]]
    write_error: Callable[[SimulatedRefusal, SimulatedRequest], dict[str, Any]]
    write_stream_error: Callable[[SimulatedRefusal, SimulatedRequest], SimulatedFrame] = (
        attrs.field()
    )
    overflow: Callable[[SimulatedPrompt, int], SimulatedRefusal]
    check_credentials: Callable[[SimulatedRequest], None]
    use_cache: Callable[[SimulatedPrompt, SimulatedRequest], SimulatedPrompt] = lambda prompt, _: (
        prompt
    )
    produce_headers: Callable[[SimulatedRequest], dict[str, str]] = lambda _: {}
    produce_error_headers: Callable[[SimulatedRefusal], dict[str, str]] = lambda _: {}
    map_status: Callable[[SimulatedRefusal], int] = _map_status
    framing: str = "sse"

    @write_stream_error.default
    def _frame_error(
        self,
    ) -> Callable[[SimulatedRefusal, SimulatedRequest], SimulatedFrame]:
        return lambda refusal, request: SimulatedFrame(self.write_error(refusal, request))

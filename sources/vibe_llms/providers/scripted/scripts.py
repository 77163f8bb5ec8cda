"""Scripts: what the provider shall answer, and which faults it shall show.

A script is a TOML file, or the same as plain data::

    [[responses]]
    match = "weather"             # optional: a regular expression on the last user's text
    delay_seconds = 0.02          # before each chunk
    chunk_characters = 5          # how finely contents are cut; 0 leaves them whole; where it is
                                  # not said: 5, or more for what would be over 2,000 chunks
    stop_reason = "answered"
    contents = [
      { reasoning = "The user wants to know the weather." },
      { text = "I shall look. You said: {input}" },
      { invocation = { id = "call-1", name = "look_up", arguments = '{"place": "Rome"}' } },
    ]
    usage = { input_tokens = 12, output_tokens = 7 }
    fault = { at_chunk = 3, kind = "overloaded" }

The first response whose ``match`` fits is given; else, of those without ``match``, the one whose
turn it is: the n-th for the n-th answer, from the first again at the end. So the answer depends
on the request alone. ``{input}`` stands for the last user's text.

Kinds of faults: the words of :class:`vibe_llms.exceptions.ProviderFault`, and ``cut`` (the stream
ends without a terminator), ``stall`` (nothing more comes) and ``garbage`` (a frame that makes
no sense).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import tomli

from vibe_llms.exceptions import ConfigurationError, Finding, ProviderFault
from vibe_llms.files import read_file
from vibe_llms.messages.canisters import StopReason, Usage
from vibe_llms.resources import access_data

_CHUNK_CHARACTERS = 5
_MOST_CHUNKS = 2_000
TRANSPORT_FAULTS = ("cut", "stall", "garbage")


@attrs.frozen(kw_only=True)
class Part:
    """One content of a response: ``kind`` is text, reasoning, refusal or invocation."""

    kind: str
    text: str
    name: str | None = None
    identity: str | None = None


@attrs.frozen(kw_only=True)
class Fault:
    """What goes wrong before the chunk of this number, counted from 0."""

    kind: str
    at_chunk: int = 0
    retry_after_seconds: float | None = None


@attrs.frozen(kw_only=True)
class ScriptedResponse:
    """One response of a script."""

    parts: tuple[Part, ...] = ()
    match: str | None = None
    delay_seconds: float = 0.0
    chunk_characters: int | None = None
    stop_reason: StopReason | None = None
    usage: Usage | None = None
    fault: Fault | None = None

    def cut(self, text: str) -> list[str]:
        """Cuts a content into chunks; one with no characters is a chunk, too."""
        size = self.chunk_characters
        if size is None:  # nobody waits for millions of chunks to see a file come back
            size = max(_CHUNK_CHARACTERS, -(-len(text) // _MOST_CHUNKS))
        size = size or max(len(text), 1)
        return [text[at : at + size] for at in range(0, len(text), size)] or [""]


@attrs.frozen(kw_only=True)
class Script:
    """Responses, in order; at least one."""

    responses: tuple[ScriptedResponse, ...]

    def choose(self, text: str, answers: int) -> ScriptedResponse:
        """Chooses the response to a user's text after so many answers."""
        for response in self.responses:
            if response.match is not None and re.search(response.match, text):
                return response
        in_turn = [response for response in self.responses if response.match is None]
        return in_turn[answers % len(in_turn)] if in_turn else self.responses[-1]


def survey_scripts() -> tuple[str, ...]:
    """Lists the names of the scripts that ship."""
    return tuple(
        sorted(path.stem for path in access_data("providers", "scripted", "scripts").glob("*.toml"))
    )


def read_script(name: str) -> Script:
    """Reads a script that ships, by its name, or another, by its path.

    Raises:
        ConfigurationError: There is no such script, or it does not hold.
    """
    path = Path(name)
    if not name.endswith(".toml"):
        path = access_data("providers", "scripted", "scripts", f"{name}.toml")
    try:
        data = tomli.loads(read_file(path).decode())
    except (OSError, UnicodeDecodeError, tomli.TOMLDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        message = (
            f"This script cannot be read: {reason}. "
            f"Name a TOML file, or one of {', '.join(survey_scripts())}."
        )
        raise ConfigurationError(findings=(Finding(place=str(path), message=message),)) from error
    return produce_script(data, place=str(path))


def produce_script(data: Mapping[str, Any], *, place: str = "script") -> Script:
    """Makes a script from plain data.

    Raises:
        ConfigurationError: With all findings at once.
    """
    findings: list[Finding] = []
    responses = []
    for index, entry in enumerate(data.get("responses") or ()):
        try:
            responses.append(_produce_response(entry))
        except (TypeError, ValueError, KeyError, AttributeError, re.error) as error:
            reason = f"responses[{index}]: {type(error).__name__}: {error}"
            findings.append(Finding(place=place, message=reason))
    if not responses and not findings:
        findings.append(Finding(place=place, message="A script needs at least one [[responses]]."))
    if findings:
        raise ConfigurationError(findings=tuple(findings))
    return Script(responses=tuple(responses))


def _produce_response(entry: Mapping[str, Any]) -> ScriptedResponse:
    fields = dict(entry)
    contents = fields.pop("contents", ())
    if "match" in fields:
        re.compile(fields["match"])
    if "usage" in fields:
        fields["usage"] = Usage(**fields["usage"])
    if "stop_reason" in fields:
        fields["stop_reason"] = StopReason(fields["stop_reason"])
    if "fault" in fields:
        fields["fault"] = _produce_fault(fields["fault"])
    return ScriptedResponse(parts=tuple(_produce_part(part) for part in contents), **fields)


def _produce_fault(entry: Mapping[str, Any]) -> Fault:
    fault = Fault(**entry)
    if fault.kind not in TRANSPORT_FAULTS:
        ProviderFault(fault.kind)
    return fault


def _produce_part(entry: Mapping[str, Any]) -> Part:
    ((kind, value),) = entry.items()
    if kind == "invocation":
        arguments = value.get("arguments", "{}")
        return Part(
            kind=kind,
            text=arguments if isinstance(arguments, str) else json.dumps(arguments),
            name=value["name"],
            identity=value.get("id"),
        )
    if kind not in ("text", "reasoning", "refusal"):
        raise ValueError(f"{kind!r} is none of text, reasoning, refusal, invocation")
    return Part(kind=kind, text=value)

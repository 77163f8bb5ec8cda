"""Scripts: the answers of the provider, and simulated faults.

A script is a TOML file, or the same structure as plain data::

    [[responses]]
    match = "weather"             # optional: a regular expression on the last user's text
    delay_seconds = 0.02          # wait before each chunk
    chunk_characters = 5          # size of chunks; 0 does not split contents; by default 5, or
                                  # more for contents of over 2,000 chunks
    stop_reason = "answered"
    contents = [
      { reasoning = "The user wants to know the weather." },
      { text = "I shall look. You said: {input}" },
      { invocation = { id = "call-1", name = "look_up", arguments = '{"place": "Rome"}' } },
    ]
    usage = { input_tokens = 12, output_tokens = 7 }
    fault = { at_chunk = 3, kind = "overloaded" }

The first response whose ``match`` matches is used. If none matches, it is one of those without
``match``: the n-th for the n-th answer, starting over after the last. So the answer depends only
on the request. ``{input}`` stands for the last user's text.

Kinds of faults: the values of :class:`vibe_llms.exceptions.ProviderFault`, and ``cut`` (the stream
ends without a terminator), ``stall`` (no more data arrive) and ``garbage`` (an invalid frame).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from vibe_llms.exceptions import ConfigurationError, ProviderFault
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.package_data import access_data
from vibe_llms.messages.canisters import StopReason, Usage
from vibe_llms.tables.documents import Document, read_document
from vibe_llms.tables.kinds import (
    AMOUNT,
    NUMBER,
    STRING,
    TABLE,
    Choice,
    Kind,
    is_list_of,
    is_table,
)
from vibe_llms.tables.paths import KeyPath
from vibe_llms.tables.reading import TableReader

_CHUNK_CHARACTERS = 5
_MAX_CHUNKS = 2_000
TRANSPORT_FAULTS = ("cut", "stall", "garbage")


@frozen(kw_only=True)
class Part:
    """One content of a response: ``kind`` is text, reasoning, refusal or invocation."""

    kind: str
    text: str
    name: str | None = None
    identity: str | None = None


@frozen(kw_only=True)
class Fault:
    """A simulated fault, before the chunk with the number ``at_chunk``, counted from 0."""

    kind: Annotated[str, Choice((*TRANSPORT_FAULTS, *ProviderFault))]
    at_chunk: Annotated[int, AMOUNT] = 0
    retry_after_seconds: float | None = None


@frozen(kw_only=True)
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
        """Split a content into chunks; an empty content has one empty chunk."""
        size = self.chunk_characters
        if size is None:  # millions of small chunks would take too long
            size = max(_CHUNK_CHARACTERS, -(-len(text) // _MAX_CHUNKS))
        size = size or max(len(text), 1)
        return [text[start : start + size] for start in range(0, len(text), size)] or [""]


@frozen(kw_only=True)
class Script:
    """Responses, in order; at least one."""

    responses: tuple[ScriptedResponse, ...]

    def choose(self, text: str, answers: int) -> ScriptedResponse:
        """Return the response to a user's text after a number of answers."""
        for response in self.responses:
            if response.match is not None and re.search(response.match, text):
                return response
        unconditional = [response for response in self.responses if response.match is None]
        if not unconditional:
            return self.responses[-1]
        return unconditional[answers % len(unconditional)]


def survey_scripts() -> tuple[str, ...]:
    """List the names of the shipped scripts."""
    return tuple(
        sorted(path.stem for path in access_data("providers", "scripted", "scripts").glob("*.toml"))
    )


def read_script(name: str) -> Script:
    """Read a shipped script by its name, or another script by its path.

    Raises:
        ConfigurationError: The script is missing or invalid.
    """
    path = Path(name)
    if not name.endswith(".toml"):
        path = access_data("providers", "scripted", "scripts", f"{name}.toml")
    try:
        document = read_document(path)
    except ConfigurationError as error:
        remedy = f"Name a TOML file, or one of {', '.join(survey_scripts())}."
        raise ConfigurationError(findings=error.findings, remedy=remedy) from error
    return produce_script(document)


def produce_script(document: Document) -> Script:
    """Make the script in a document.

    Raises:
        ConfigurationError: The script is invalid; the error lists all findings.
    """
    reader = document.produce_reader()
    entries = reader.read_fields(_SCRIPT, document.tree).get("responses", ())
    responses = [
        _read_response(reader, entry, ("responses", index)) for index, entry in enumerate(entries)
    ]
    if not responses and not reader.findings:
        reader.report((), "A script needs at least one [[responses]].")
    reader.finish()
    return Script(responses=tuple(responses))


def _read_response(
    reader: TableReader, entry: Mapping[str, Any], path: KeyPath
) -> ScriptedResponse:
    values = reader.read_fields(_RESPONSE, entry, path)
    contents = enumerate(values.pop("contents", ()))
    parts = [_read_part(reader, part, (*path, "contents", index)) for index, part in contents]
    for name, cls in (("usage", Usage), ("fault", Fault)):
        if name in values:
            values[name] = reader.read(cls, values[name], (*path, name))
    return ScriptedResponse(parts=tuple(filter(None, parts)), **values)


def _write_json(value: object) -> str:
    import json  # few scripts need it

    return json.dumps(value)


def _read_part(reader: TableReader, entry: Mapping[str, Any], path: KeyPath) -> Part | None:
    values = reader.read_fields(_PART, entry, path)
    if len(entry) != 1:
        reader.report(path, f"It must have exactly one of {', '.join(_PART)}.")
    for kind, value in values.items():
        if kind != "invocation":
            return Part(kind=kind, text=value)
        call = reader.read_fields(_CALL, value, (*path, kind), required=("name",))
        arguments = call.get("arguments", "{}")
        return Part(
            kind=kind,
            text=arguments if isinstance(arguments, str) else _write_json(arguments),
            name=call.get("name"),
            identity=call.get("id"),
        )
    return None


def _check_expression(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"Invalid regular expression: {error}.") from error
    return text


_TABLES = Kind("a list of tables", is_list_of(is_table))
_SCRIPT: Mapping[str, Kind] = {"responses": _TABLES}
_RESPONSE: Mapping[str, Kind] = {
    "match": Kind("a regular expression", STRING.is_valid, _check_expression),
    "delay_seconds": NUMBER,
    "chunk_characters": AMOUNT,
    "stop_reason": Choice(StopReason, StopReason),
    "contents": _TABLES,
    "usage": TABLE,
    "fault": TABLE,
}
_PART: Mapping[str, Kind] = {
    "text": STRING,
    "reasoning": STRING,
    "refusal": STRING,
    "invocation": TABLE,
}
_CALL: Mapping[str, Kind] = {
    "id": STRING,
    "name": STRING,  # may be empty, as models send empty arguments
    "arguments": Kind("a text or a table", lambda value: isinstance(value, str) or is_table(value)),
}
"""Kinds instead of annotations, which take longer: scripts are read at start-up."""

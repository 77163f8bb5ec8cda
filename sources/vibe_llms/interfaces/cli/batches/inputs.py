"""Input lines of ``vibe batch``: each is parsed, or reported with its error.

A file is read twice: the first time every line is checked, before anything is sent or written.
A pipe is read once, as its lines arrive.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from vibe_llms.batches.items import BatchInput
from vibe_llms.exceptions import ConverseError, RequestError
from vibe_llms.foundation.encodings import find_misencoding
from vibe_llms.foundation.files import open_reader
from vibe_llms.invocables.threads import run_in_thread

_BLOCK_BYTES = 65_536
_KEYS = ("prompt", "id")
_FINDINGS_LIMIT = 3
"""Maximum number of invalid lines to report; the others are counted."""

_FORMS = 'Each line must be a JSON string or an object such as {"prompt": "…", "id": "…"}.'


class InputForm(NamedTuple):
    """Format of the input lines.

    Attributes:
        is_text: Each line is a prompt, taken literally; empty ones are skipped.
        fill: Takes the variables of a line, to check that they fit; ``None`` if lines are
            prompts. Raises ConverseError.
        takes_id: Whether ``id`` is also a variable.
    """

    is_text: bool = False
    fill: Callable[..., object] | None = None
    takes_id: bool = False

    def read(self, line: bytes) -> BatchInput | None:
        """Parse one line; return ``None`` if it is empty.

        Raises:
            ValueError: The line is invalid; the message names the reason and the rule.
        """
        try:
            text = line.decode("utf-8-sig").strip("\r\n")  # Windows programs write a BOM
        except UnicodeDecodeError as error:
            raise ValueError(_explain(line, error.start + 1)) from error
        if not text.strip():
            return None
        if self.is_text:
            return BatchInput(text)
        try:
            value = json.loads(text)
        except RecursionError as error:
            raise ValueError("The line nests too deeply.") from error
        except ValueError as error:
            raise ValueError(f"The line is not valid JSON ({error}). {self._rule}") from error
        return self._take(value)

    @property
    def _rule(self) -> str:
        if self.fill is not None:
            return "Each line must be an object with the variables of the prompt."
        return f"{_FORMS} For lines of plain text, add --text."

    def _take(self, value: Any) -> BatchInput:
        if isinstance(value, dict):
            name = _read_name(value)
            if self.fill is not None:
                return BatchInput(self._check_variables(value), name)
            return BatchInput(self._read_prompt(value), name)
        if isinstance(value, str) and self.fill is None:
            if not value.strip():
                raise ValueError(f"The prompt is empty. {self._rule}")
            return BatchInput(value)
        kind = {"list": "an array", "str": "a string"}.get(type(value).__name__, "a number or null")
        raise ValueError(f"The line is {kind}. {self._rule}")

    def _check_variables(self, value: dict[str, Any]) -> dict[str, Any]:
        if not self.takes_id:
            value.pop("id", None)
        assert self.fill is not None
        try:
            self.fill(**value)
        except ConverseError as error:
            raise ValueError(str(error)) from error
        return value

    def _read_prompt(self, value: dict[str, Any]) -> str:
        prompt = value.get("prompt")
        if not isinstance(prompt, str) or not prompt.strip():
            raise ValueError(f'"prompt" is missing or not a string. {self._rule}')
        unknown = [name for name in value if name not in _KEYS]
        if unknown:
            raise ValueError(f"Unknown keys: {', '.join(map(repr, unknown))}. {self._rule}")
        return prompt


def _explain(line: bytes, place: int) -> str:
    found = find_misencoding(line)
    if found is None or not found.name:
        return f"The file is not UTF-8 (byte {place})."
    sentence = f"The file is in {found.name}, not in UTF-8 (byte {place} is 0x{found.byte:02X})."
    return f"{sentence} {found.compose_remedy('FILE')}"


def _read_name(value: dict[str, Any]) -> str | None:
    name = value.get("id")
    if isinstance(name, int) and not isinstance(name, bool):
        return str(name)
    if name is None or (isinstance(name, str) and name):
        return name
    raise ValueError('"id" is neither a string nor a whole number.')


def check_file(path: Path, form: InputForm) -> int:
    """Check all lines of a file; return its number of inputs.

    Raises:
        RequestError: A line is invalid, or two have the same id; names the first ones.
    """
    count = 0
    findings: list[str] = []
    more = 0
    names: dict[str, int] = {}
    for number, line in _walk(path):
        try:
            given = form.read(line)
            if given is not None and given.id is not None:
                first = names.setdefault(given.id, number)
                if first != number:
                    raise ValueError(f"The id {given.id!r} is already used in line {first}.")
        except ValueError as error:
            if len(findings) < _FINDINGS_LIMIT:
                findings.append(f"{path}:{number}: {error}")
            else:
                more += 1
            continue
        count += given is not None
    if findings:
        rest = f" And {more:,} more lines." if more else ""
        raise RequestError(path=str(path), detail=" ".join(findings) + rest)
    if not count:
        raise RequestError(path=str(path), detail=f"{path} has no inputs.", remedy=form._rule)
    return count


def read_file(path: Path, form: InputForm) -> Iterator[BatchInput]:
    """Yield the inputs of a checked file. Raises RequestError if it has changed since."""
    for number, line in _walk(path):
        given = _read(form, line, f"{path}:{number}")
        if given is not None:
            yield given


async def read_pipe(form: InputForm) -> AsyncIterator[BatchInput]:
    """Yield the inputs of standard input as they arrive.

    Raises:
        RequestError: A line is invalid.
    """
    number = 0
    async for line in _receive_lines():
        number += 1
        given = _read(form, line, f"standard input:{number}")
        if given is not None:
            yield given


def _read(form: InputForm, line: bytes, place: str) -> BatchInput | None:
    try:
        return form.read(line)
    except ValueError as error:
        raise RequestError(
            path=place,
            detail=f"{place}: {error}",
            remedy="The lines before it are done.",
        ) from error


def _walk(path: Path) -> Iterator[tuple[int, bytes]]:
    try:
        with open_reader(str(path)) as file:
            yield from enumerate(file, 1)
    except OSError as error:
        raise RequestError(
            path=str(path),
            detail=f"Cannot read {path}: {error.strerror or error}.",
            remedy="Name a file of lines, or - for standard input.",
        ) from error


async def _receive_lines() -> AsyncIterator[bytes]:
    """Yield the lines of standard input without blocking the event loop."""
    rest = b""
    async for block in _receive_blocks():
        *lines, rest = (rest + block).split(b"\n")
        for line in lines:
            yield line
    if rest:
        yield rest


async def _receive_blocks() -> AsyncIterator[bytes]:
    try:
        descriptor = sys.stdin.fileno()
    except (OSError, ValueError):  # a replacement of standard input, already complete
        source: BinaryIO = sys.stdin.buffer
        yield source.read()
        return
    # In a thread that is not joined at exit: it may never return.
    while block := await run_in_thread(lambda: _read_block(descriptor)):
        yield block


def _read_block(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, _BLOCK_BYTES)
    except OSError:
        return b""

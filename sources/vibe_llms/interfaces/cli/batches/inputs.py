"""Input lines of ``vibe batch``: each is parsed, or reported with its error.

A file is read twice. The first time, every line is checked before anything is sent or written.
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
_LINE_BYTES = 20_000_000
_FINDINGS_LIMIT = 3
"""Maximum number of invalid lines to report; the others are counted."""


class InputFormat(NamedTuple):
    """Format of the input lines.

    Attributes:
        is_text: Whether each line is a plain prompt, not JSON; empty lines are skipped.
        fill: Fills the prompt template with the variables of a line, to check them; raises
            ConverseError. ``None`` if lines are prompts.
        takes_id: Whether ``id`` is also a variable of the template.
        key: Key of the prompt or text in a line that is an object without variables.
    """

    is_text: bool = False
    fill: Callable[..., object] | None = None
    takes_id: bool = False
    key: str = "prompt"

    def read(self, line: bytes) -> BatchInput | None:
        """Parse one line; return ``None`` if it is empty.

        Raises:
            ValueError: The line is invalid; the message names the reason and the rule.
        """
        if len(line) > _LINE_BYTES:
            raise ValueError(f"The line has more than {_LINE_BYTES:,} bytes.")
        try:
            text = line.decode("utf-8-sig").strip("\r\n")  # Windows programs write a BOM
        except UnicodeDecodeError as error:
            raise ValueError(_explain_misencoding(line, error.start + 1)) from error
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
        return self._convert(value)

    @property
    def _rule(self) -> str:
        if self.fill is not None:
            return "Each line must be an object with the variables of the prompt."
        form = f'{{"{self.key}": "…", "id": "…"}}'
        return (
            f"Each line must be a JSON string or an object such as {form}. For lines of plain "
            "text, add --text."
        )

    def _convert(self, value: Any) -> BatchInput:
        if isinstance(value, dict):
            name = _read_name(value)
            if self.fill is not None:
                return BatchInput(self._check_variables(value), name)
            return BatchInput(self._read_prompt(value), name)
        if isinstance(value, str) and self.fill is None:
            if not value.strip():
                raise ValueError(f"The {self.key} is empty. {self._rule}")
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
        prompt = value.get(self.key)
        if not isinstance(prompt, str) or not prompt.strip():
            raise ValueError(f'"{self.key}" is missing or not a string. {self._rule}')
        unknown = [name for name in value if name not in (self.key, "id")]
        if unknown:
            raise ValueError(f"Unknown keys: {', '.join(map(repr, unknown))}. {self._rule}")
        return prompt


def _explain_misencoding(line: bytes, position: int) -> str:
    misencoding = find_misencoding(line)
    if misencoding is None or not misencoding.name:
        return f"The file is not UTF-8 (byte {position})."
    byte = f"byte {position} is 0x{misencoding.byte:02X}"
    sentence = f"The file is in {misencoding.name}, not in UTF-8 ({byte})."
    return f"{sentence} {misencoding.compose_remedy('FILE')}"


def _read_name(value: dict[str, Any]) -> str | None:
    name = value.get("id")
    if isinstance(name, int) and not isinstance(name, bool):
        return str(name)
    if name is None or (isinstance(name, str) and name):
        return name
    raise ValueError('"id" is neither a string nor a whole number.')


def check_file(path: Path, input_format: InputFormat) -> int:
    """Check all lines of a file; return its number of inputs.

    Raises:
        RequestError: Lines are invalid, or have the same id; lists the first ones.
    """
    count = 0
    findings: list[str] = []
    more = 0
    first_lines: dict[str, int] = {}  # by id
    for number, line in _read_lines(path):
        try:
            batch_input = input_format.read(line)
            if batch_input is not None and batch_input.id is not None:
                first = first_lines.setdefault(batch_input.id, number)
                if first != number:
                    raise ValueError(f"The id {batch_input.id!r} is already used in line {first}.")
        except ValueError as error:
            if len(findings) < _FINDINGS_LIMIT:
                findings.append(f"{path}:{number}: {error}")
            else:
                more += 1
            continue
        if batch_input is not None:
            count += 1
    if findings:
        rest = f" And {more:,} more lines." if more else ""
        raise RequestError(path=str(path), detail=" ".join(findings) + rest)
    if not count:
        raise RequestError(
            path=str(path), detail=f"{path} has no inputs.", remedy=input_format._rule
        )
    return count


def read_file(path: Path, input_format: InputFormat) -> Iterator[BatchInput]:
    """Yield the inputs of a checked file. Raises RequestError if it has changed since."""
    for number, line in _read_lines(path):
        batch_input = _read(input_format, line, f"{path}:{number}")
        if batch_input is not None:
            yield batch_input


async def read_pipe(input_format: InputFormat) -> AsyncIterator[BatchInput]:
    """Yield the inputs of standard input as they arrive.

    Raises:
        RequestError: A line is invalid.
    """
    number = 0
    async for line in _receive_lines():
        number += 1
        batch_input = _read(input_format, line, f"standard input:{number}")
        if batch_input is not None:
            yield batch_input


def _read(input_format: InputFormat, line: bytes, place: str) -> BatchInput | None:
    try:
        return input_format.read(line)
    except ValueError as error:
        raise RequestError(
            path=place,
            detail=f"{place}: {error}",
            remedy="The lines before it were processed.",
        ) from error


def _read_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a file with their numbers; the last is the beginning of one too long."""
    number, line = 0, b"\n"
    try:
        with open_reader(str(path)) as file:
            while line.endswith(b"\n") and (line := file.readline(_LINE_BYTES + 1)):
                number += 1
                yield number, line
    except OSError as error:
        raise RequestError(
            path=str(path),
            detail=f"Cannot read {path}: {error.strerror or error}.",
            remedy="Name a file of lines, or - for standard input.",
        ) from error


async def _receive_lines() -> AsyncIterator[bytes]:
    """Yield the lines of standard input without blocking the event loop.

    The last is the beginning of one too long.
    """
    line = bytearray()
    async for block in _receive_blocks():
        *ends, rest = block.split(b"\n")
        for end in ends:
            yield bytes(line + end)
            line.clear()
        line += rest
        if len(line) > _LINE_BYTES:
            break
    if line:
        yield bytes(line)


async def _receive_blocks() -> AsyncIterator[bytes]:
    try:
        descriptor = sys.stdin.fileno()
    except (OSError, ValueError):  # standard input was replaced by an object in memory
        source: BinaryIO = sys.stdin.buffer
        yield source.read()
        return
    # The thread is not joined at exit, because the read may never return.
    while block := await run_in_thread(lambda: _read_block(descriptor)):
        yield block


def _read_block(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, _BLOCK_BYTES)
    except OSError:
        return b""

"""Validation in another process, within limits of time and memory.

The costs of an untrusted schema are unknown beforehand: a pattern can backtrack endlessly, and
references can multiply endlessly. A thread cannot be stopped then, but a process can be killed. The
process answers one question at a time, exits some time after the last question, and ends with this
program, which closes its input.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from typing import IO, Any, Final

from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.invocables.argument_faults import ArgumentFault, refuse_schema, shorten, show_value

VALIDATOR_SECONDS: Final = 5.0
"""Maximum processor time for applying a schema once."""

VALIDATOR_BYTES: Final = 2_147_483_648
"""Memory limit of the process."""

IDLE_SECONDS: Final = 60.0
"""Time after which an idle process exits."""

_ANSWER_SECONDS: Final = 120.0
"""Timeout of an answer on a machine that is busy with other work."""

_ENDING_SECONDS: Final = 1.0
_CHUNK_BYTES: Final = 65_536
_INHERITED: Final = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")  # which contain no secrets
_SUSPECTS_LIMIT: Final = 3

_PROGRAM: Final = (
    "import json, sys; paths = json.loads(sys.argv[1]); sys.path[:] = paths\n"
    "from vibe_llms.invocables.validator import serve; serve(*map(float, sys.argv[2:]))"
)


class _ProcessEnded(Exception):
    """The process has ended without an answer; ``status`` is its exit status."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class _ValidatorProcess:
    """Client of the process."""

    def __init__(self) -> None:
        # Without empty entries, which stand for the current directory.
        paths = json.dumps([str(path) for path in sys.path if path])
        limits = map(str, (VALIDATOR_SECONDS, VALIDATOR_BYTES, IDLE_SECONDS))
        self._process = subprocess.Popen(
            # Isolated, so that neither that directory nor variables affect the imports.
            [sys.executable, "-I", "-c", _PROGRAM, paths, *limits],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={name: os.environ[name] for name in _INHERITED if name in os.environ},
            start_new_session=True,  # this process handles interrupts at the terminal
        )

    def ask(self, question: bytes) -> Any:
        """Ask, and wait for the answer. Raises _ProcessEnded."""
        try:
            inbox, outbox = self._process.stdin, self._process.stdout
            assert inbox is not None
            assert outbox is not None
            inbox.write(question + b"\n")
            inbox.flush()
            return json.loads(_read_line(outbox))
        except (OSError, ValueError) as error:  # it ended, or is unusable
            raise _ProcessEnded(self.end()) from error
        # After an interruption, the next question would get this answer.
        except BaseException:
            self._process.kill()
            self.end()
            raise

    def end(self) -> int:
        """End the process, and return its status: a negative signal number if it was killed."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()
        try:
            return self._process.wait(_ENDING_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            return -signal.SIGPROF


def _read_line(outbox: IO[bytes]) -> bytes:
    """Read one line. Raises OSError at the end."""
    deadline = time.monotonic() + _ANSWER_SECONDS
    line = bytearray()
    with selectors.DefaultSelector() as selector:
        selector.register(outbox, selectors.EVENT_READ)
        while not line.endswith(b"\n"):
            remaining = deadline - time.monotonic()
            if remaining < 0 or not selector.select(remaining):
                raise TimeoutError
            # Not readline, which waits for the rest of a line without a timeout.
            chunk = os.read(outbox.fileno(), _CHUNK_BYTES)
            if not chunk:
                raise ConnectionError("it ended")
            line += chunk
    return bytes(line)


_lock = threading.Lock()
_running: _ValidatorProcess | None = None


def consult(schema: JsonObject, value: Any, name: str) -> tuple[ArgumentFault, ...]:
    """Have the other process find the faults of a value according to a schema.

    This blocks until the answer arrives; in an event loop, call it in a thread.

    Args:
        name: Owner of the schema, for errors.

    Raises:
        RequestError: The schema is invalid, cannot be applied, or exceeds its limits.
    """
    try:
        question = json.dumps([schema, value, name]).encode()
    except RecursionError:
        return (ArgumentFault(path="arguments", rule="nest too deeply"),)
    except (TypeError, ValueError) as error:
        return (
            ArgumentFault(
                path="arguments", rule=f"cannot be written as JSON: {shorten(str(error))}"
            ),
        )
    answer = _ask(question, schema, name)
    if "refusal" in answer:
        raise refuse_schema(name, answer["refusal"], is_complete=True)
    return tuple(ArgumentFault(path=path, rule=rule) for path, rule in answer["faults"])


def _ask(question: bytes, schema: JsonObject, name: str) -> dict[str, Any]:
    global _running
    with _lock:
        for is_new in (_running is None, True):
            if _running is None:
                try:
                    _running = _ValidatorProcess()
                except OSError as error:
                    detail = f"the validating process cannot be started: {error}."
                    raise refuse_schema(name, detail) from error
            try:
                answer: dict[str, Any] = _running.ask(question)
                return answer
            except _ProcessEnded as ended:
                _running = None
                if not is_new and ended.status != -signal.SIGPROF:
                    continue  # the process had exited after its idle time, or was killed
                raise refuse_schema(name, _explain_end(ended.status, schema)) from ended
            except BaseException:
                _running = None
                raise
    raise AssertionError


def _explain_end(status: int, schema: JsonObject) -> str:
    if status != -signal.SIGPROF:
        return f"the validating process has ended ({status})."
    places = list(_find_suspects(schema, "$"))[:_SUSPECTS_LIMIT]
    hint = f" Look at {', '.join(places)}." if places else ""
    return (
        f"it takes more than {VALIDATOR_SECONDS:g} seconds of processor time: a pattern "
        f"backtracks, or alternatives and references multiply.{hint}"
    )


def _find_suspects(schema: Any, place: str) -> Iterator[str]:
    """Yield the places of a schema that can be expensive: patterns first, then references."""
    found = list(_walk(schema, place))
    patterns = [(place, pattern) for place, pattern in found if "attern" in place]
    yield from (f"{place} ({show_value(pattern)})" for place, pattern in patterns)
    yield from (place for place, _ in found if "attern" not in place)


def _walk(schema: Any, place: str) -> Iterator[tuple[str, Any]]:
    """Yield the expensive keywords of a schema, each with its path and its value."""
    pending = [(place, schema)]
    while pending:
        place, each = pending.pop()
        if isinstance(each, Mapping):
            for key, value in reversed(list(each.items())):
                here = f"{place}.{key}"
                if key == "pattern" and isinstance(value, str):
                    yield here, value
                elif key == "patternProperties" and isinstance(value, Mapping):
                    yield here, next(iter(value), "")
                elif key in ("$ref", "$dynamicRef", "uniqueItems"):
                    yield here, value
                pending.append((here, value))
        elif isinstance(each, list):
            pending += [(f"{place}[{index}]", item) for index, item in enumerate(each)]


def dismiss() -> None:
    """End the process, if there is one; the next question starts another."""
    global _running
    with _lock:
        if _running is not None:
            _running.end()
            _running = None


atexit.register(dismiss)


def _forget() -> None:
    """Let a forked child start another process: the existing one belongs to the parent."""
    global _lock, _running
    _lock = threading.Lock()
    _running = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)

"""Server of ``validator_process``: the program of the process that applies schemas."""

from __future__ import annotations

import contextlib
import functools
import json
import resource
import selectors
import signal
import sys
from typing import Any

from vibe_llms.exceptions import RequestError
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.invocables.argument_faults import refuse_schema
from vibe_llms.invocables.faults import find_faults, produce_schema_validator
from vibe_llms.invocables.schema_compiler import Check, compile_check


def serve(seconds: float, memory_bytes: float, idle_seconds: float) -> None:
    """Answer questions, one per line, until the input ends.

    Args:
        seconds: Processor time for one answer. The system kills a process that takes longer, even
            during a computation, because the process does not handle the signal.
        memory_bytes: Memory limit of the process.
        idle_seconds: Time after which an idle process exits.
    """
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    limit = int(memory_bytes)
    with contextlib.suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    with selectors.DefaultSelector() as selector:
        selector.register(sys.stdin.buffer, selectors.EVENT_READ)
        while selector.select(idle_seconds):
            question = sys.stdin.buffer.readline()
            if not question:
                return
            # Not the elapsed time, which depends on the load of the machine.
            signal.setitimer(signal.ITIMER_PROF, seconds)
            answer = json.dumps(_answer(question))
            signal.setitimer(signal.ITIMER_PROF, 0)
            sys.stdout.write(f"{answer}\n")
            sys.stdout.flush()


def _answer(question: bytes) -> dict[str, Any]:
    try:
        schema, value, name = json.loads(question)
    except RecursionError:
        return {"faults": [("arguments", "nest too deeply")]}
    except ValueError as error:
        return {"faults": [("arguments", f"cannot be read: {error}")]}
    try:
        # As text, because the schema is the key of a cache, and a dict is not hashable.
        return {"faults": _validate(json.dumps(schema), value, name)}
    except RequestError as error:
        return {"refusal": error.detail}
    except MemoryError:
        return {"refusal": refuse_schema(name, "it takes too much memory.").detail}


def _validate(text: str, value: Any, name: str) -> list[tuple[str, str]]:
    prepared = _prepare(text)
    # A negative check may be wrong, so jsonschema decides; a positive one is always right.
    if prepared.check is not None and _passes(prepared.check, value):
        return []
    if prepared.validator is None:
        prepared.validator = produce_schema_validator(json.loads(text), name)
    return [(fault.path, fault.rule) for fault in find_faults(prepared.validator, value, name)]


@define
class _PreparedSchema:
    """Compiled check and validator of one schema."""

    check: Check | None
    validator: Any = None


@functools.lru_cache(maxsize=64)
def _prepare(text: str) -> _PreparedSchema:
    return _PreparedSchema(compile_check(json.loads(text), with_patterns=True))


def _passes(check: Check, value: Any) -> bool:
    try:
        return check(value)
    except RecursionError:
        return False

"""A stranger's schema costs what we let it cost, whatever it says."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.exceptions import RequestError
from vibe_llms.invocables import InvocationContext, perform, produce_validator, validator_process
from vibe_llms.invocables.invokers import Invoker
from vibe_llms.invocables.validation import Validator

BACKTRACKING: dict[str, Any] = {
    "type": "object",
    "properties": {"bait": {"type": "string", "pattern": "^(a+)+$"}},
}
BAIT = {"bait": "a" * 50 + "!"}


def multiply(keyword: str, kind: str = "string") -> dict[str, Any]:
    """Returns a schema of 28 lines that has 2**27 ways through it."""
    steps = {f"d{index}": {keyword: [{"$ref": f"#/$defs/d{index + 1}"}] * 2} for index in range(27)}
    return {"$ref": "#/$defs/d0", "$defs": {**steps, "d27": {"type": kind}}}


@pytest.fixture(autouse=True)
def judge(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each test has a process of its own, with less patience; afterwards it is gone."""
    monkeypatch.setattr(validator_process, "VALIDATOR_SECONDS", 0.5)
    validator_process.dismiss()
    yield
    validator_process.dismiss()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("schema", "value", "place"),
    [
        (BACKTRACKING, BAIT, '$.properties.bait.pattern ("^(a+)+$")'),
        ({"patternProperties": {"^(a+)+$": True}}, {"a" * 50 + "!": 1}, "$.patternProperties"),
        ({"propertyNames": {"pattern": "(x+x+)+y"}}, {"x" * 50: 1}, "$.propertyNames.pattern"),
        (multiply("anyOf"), 5, "$.$ref"),
        (multiply("oneOf"), 5, "$.$ref"),
        (multiply("allOf"), "text", "$.$ref"),
        ({"unevaluatedProperties": False, **multiply("allOf", "object")}, {}, "$.$ref"),
        ({"uniqueItems": True}, [[i] if i % 2 else i for i in range(50_000)], "$.uniqueItems"),
        (
            {"properties": {"bait": {**BACKTRACKING["properties"]["bait"], "$schema": "x"}}},
            BAIT,
            "$.properties.bait.pattern",
        ),
    ],
    ids=lambda each: each if isinstance(each, str) else "",
)
async def test_what_could_take_for_ever_is_refused_and_the_loop_goes_on(
    schema: dict[str, Any], value: Any, place: str
) -> None:
    """The error names whose schema it is, the place, the rule, and what to do."""
    task = asyncio.create_task(produce_validator(schema, "lookup").examine(value))
    turns = 0
    while not task.done():
        await asyncio.sleep(0.01)
        turns += 1

    assert turns > 3
    with pytest.raises(RequestError) as caught:
        await task
    text = str(caught.value)
    assert text.startswith("Cannot apply the schema of lookup: it takes more than 0.5 sec")
    assert place in text
    assert text.endswith("Correct the schema, or remove what uses it.")


@pytest.mark.slow
async def test_the_next_schema_is_applied_as_ever() -> None:
    """Another process takes the place of one that was ended."""
    validator = Validator(BACKTRACKING)
    with pytest.raises(RequestError):
        await validator.examine(BAIT)

    assert await validator.examine({"bait": "aaa"}) == ()
    assert [str(fault) for fault in await validator.examine({"bait": "b"})] == [
        'arguments.bait: must match the pattern "^(a+)+$", not "b"'
    ]


@pytest.mark.slow
async def test_a_call_whose_schema_takes_for_ever_has_an_outcome() -> None:
    """In words for the model, and nothing was executed."""
    executed = []

    async def lookup(arguments: Any, context: InvocationContext) -> None:
        executed.append(arguments)

    tool = Invoker(name="lookup", description="Looks.", schema=BACKTRACKING, function=lookup)
    outcome = await perform(tool, BAIT, InvocationContext())

    assert outcome.is_error
    assert "Cannot apply the schema of lookup" in outcome.text
    assert not executed


@pytest.mark.slow
def test_a_schema_that_needs_too_much_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the machine's memory ends, but the process's."""
    monkeypatch.setattr(validator_process, "VALIDATOR_SECONDS", 30.0)
    monkeypatch.setattr(validator_process, "VALIDATOR_BYTES", 150_000_000)
    steps = {"anyOf": [{"$ref": "#/$defs/wide"}] * 100}

    with pytest.raises(RequestError, match=r"takes too much memory|has ended"):
        produce_validator(
            {**steps, "$defs": {"wide": {"anyOf": [{"type": "string"}] * 1_000}}}
        ).check(["x" * 10_000])


@pytest.mark.slow
def test_a_process_that_somebody_ended_is_replaced() -> None:
    """What happens to it between two questions is nobody's fault."""
    validator = Validator(BACKTRACKING)
    assert validator.check({"bait": "a"}) == ()
    assert validator_process._running is not None

    os.kill(validator_process._running._process.pid, signal.SIGKILL)
    validator_process._running._process.wait()

    assert validator.check({"bait": "a"}) == ()


def test_the_process_ends_with_us() -> None:
    """Also where we are killed: its input closes."""
    code = """
        import os, signal
        from vibe_llms.invocables import validator_process, produce_validator
        produce_validator({"pattern": "a"}).check("a")
        print(validator_process._running._process.pid, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, check=False
    )  # returns when the last holder of the pipe has closed it: the process inherits none
    pid = int(ended.stdout)

    while True:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            break
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:  # noqa: PTH123
            if file.read().rpartition(")")[2].split()[0] == "Z":
                break


def test_the_process_sees_none_of_our_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is given no environment to speak of."""
    monkeypatch.setenv("SOME_API_KEY", "sk-very-secret")
    assert produce_validator({"pattern": "a"}).check("a") == ()
    assert validator_process._running is not None

    with open(f"/proc/{validator_process._running._process.pid}/environ", "rb") as file:  # noqa: PTH123
        assert b"secret" not in file.read()


@pytest.mark.slow
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=5,
    )
)
def test_whatever_is_checked_there_is_an_answer(value: Any) -> None:
    """The other process sees what we see: odd texts, numbers beyond all bounds, nothing at all."""
    here = produce_validator({"type": ["object", "array", "string"]}).check(value)
    there = produce_validator({"type": ["object", "array", "string"], "not": False}).check(value)

    assert here == there


def test_a_ring_or_what_json_cannot_say_is_a_fault() -> None:
    """Where it has to be sent elsewhere to be looked at."""
    ring: list[Any] = []
    ring.append(ring)

    for value in (ring, {1, 2}, object()):
        (fault,) = produce_validator({"not": False}).check(value)
        assert "as JSON" in fault.rule


def test_a_large_value_is_checked_elsewhere() -> None:
    """A hundred thousand rows take a while, and are right or wrong as a few are."""
    row = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    validator = Validator({"type": "array", "items": row})

    assert validator._check_here([{"a": 1}] * 100_000) is None
    assert validator._check_here([{"a": 1}] * 10) == ()

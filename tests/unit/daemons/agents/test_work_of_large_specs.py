"""What a client of runs sends costs no more than its size."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from support.quality.working import LINEAR, find_growth
from vibe_llms.agents.run_specs import read_run_spec
from vibe_llms.daemons.agents.request_bodies import read_input, read_json
from vibe_llms.exceptions import ConfigurationError

BODIES: dict[str, Callable[[int], dict[str, Any]]] = {
    "messages": lambda n: {"input": [{"content": "x"}] * n},
    "messages that are none": lambda n: {"input": [{"content": 5}] * n},
    "unknown fields": lambda n: {f"k{i}": i for i in range(n)},
    "ensembles": lambda n: {"ensembles": [f"e{i}" for i in range(n)]},
    "variables": lambda n: {"task": {"model": "m"}, "variables": {f"v{i}": i for i in range(n)}},
    "nodes of a task": lambda n: {
        "task": {"model": "m", "prompts": {f"p{i}": "Say x." for i in range(n)}}
    },
}


@pytest.mark.slow
@pytest.mark.parametrize("case", BODIES)
def test_twice_as_much_is_read_with_twice_the_work(case: str) -> None:
    """A refusal costs no more than what is taken."""

    def produce(count: int) -> Callable[[], object]:
        body = msgspec.json.encode(BODIES[case](count))

        def read() -> None:
            given = dict(read_json(body))
            with contextlib.suppress(ConfigurationError):
                read_input(given.pop("input", None))
                read_run_spec(given)

        return read

    lines, size = find_growth(produce, 200)

    assert lines <= LINEAR
    assert size <= LINEAR

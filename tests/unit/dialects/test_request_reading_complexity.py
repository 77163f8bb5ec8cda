"""The work for reading a request is proportional to its size: twice as many of anything take twice
the work.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from itertools import product

import pytest

from support.quality.properties import sample
from support.quality.working import LINEAR, find_growth
from support.vendors.growing_requests import CASES, PROTOCOLS, produce_client
from vibe_llms.exceptions import RequestError


@pytest.mark.slow
@pytest.mark.samples
@pytest.mark.parametrize(("case", "protocol"), sample(product(CASES, PROTOCOLS)))
def test_the_work_for_reading_is_proportional_to_the_size(protocol: str, case: str) -> None:
    """Rejecting a request takes no more work than accepting it."""
    dialect = importlib.import_module(f"vibe_llms.dialects.{protocol}")
    client = produce_client(protocol)

    def produce(count: int) -> Callable[[], object]:
        body = CASES[case](client, count)

        def read() -> None:
            try:
                dialect.normalize_request(body)
            except RequestError as error:
                dialect.nativize_error(error)

        return read

    lines, size = find_growth(produce, 96 if case.startswith("tools") else 16)

    assert lines <= LINEAR
    assert size <= LINEAR

"""The work for writing a request is proportional to its size: twice as many of anything take twice
the work.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Callable
from itertools import product

import pytest

from fidelity.parties import PARTIES
from support.quality.properties import sample
from support.quality.working import LINEAR, find_growth
from support.vendors.growing_requests import CASES, PROTOCOLS, produce_client
from vibe_llms.dialects.extras import make_native
from vibe_llms.dialects.ledger import Ledger
from vibe_llms.dialects.responses.calling.item_order import WrittenItem, settle_reasoning
from vibe_llms.exceptions import RequestError
from vibe_llms.messages.canisters import (
    AssistantCanister,
    Origin,
    UserCanister,
)
from vibe_llms.messages.contents import ReasoningContent
from vibe_llms.messages.requests import Request


@pytest.mark.slow
@pytest.mark.samples
@pytest.mark.parametrize(("case", "index"), sample(product(CASES, range(len(PARTIES))), 1))
def test_the_work_for_writing_is_proportional_to_the_size(index: int, case: str) -> None:
    """From clients of one protocol to vendors of others, each case with another pair."""
    cases = list(CASES)
    protocol = PROTOCOLS[(index + cases.index(case)) % len(PROTOCOLS)]
    dialect = importlib.import_module(f"vibe_llms.dialects.{protocol}")
    client = produce_client(protocol)

    def produce(count: int) -> Callable[[], object]:
        body = CASES[case](client, count)
        try:
            request = dialect.normalize_request(body).value
        except RequestError:  # the same name twice, say
            pytest.skip("what is refused is not written")

        def write() -> None:
            with contextlib.suppress(RequestError):
                PARTIES[index].nativize(request)

        return write

    lines, size = find_growth(produce, 16)

    assert lines <= LINEAR
    assert size <= LINEAR


def think(protocol: str) -> AssistantCanister:
    thought = ReasoningContent(text="t", signature="s", native=make_native(protocol, {}))
    return AssistantCanister(
        [thought], turn_id="t", origin=Origin(provider="", model="m", protocol=protocol)
    )


@pytest.mark.slow
def test_the_work_for_withholding_reasoning_is_proportional_to_the_size() -> None:
    [gemini] = [each for each in PARTIES if each.name == "google"]

    def produce(count: int) -> Callable[[], object]:
        canisters = [UserCanister("hi"), think("messages")] * count
        request = Request(canisters=[*canisters, UserCanister("hi")])
        return lambda: gemini.nativize(request)

    lines, size = find_growth(produce, 128)

    assert lines <= LINEAR
    assert size <= LINEAR


@pytest.mark.slow
def test_the_work_for_withholding_reasoning_without_output_is_proportional_to_the_size() -> None:
    item = {"type": "reasoning", "encrypted_content": "s"}

    def produce(count: int) -> Callable[[], object]:
        written = [WrittenItem(item, "canisters[0]")] * count
        ledger = Ledger(protocol="responses", provider="")
        return lambda: settle_reasoning(written, ledger, is_stored=False)

    lines, size = find_growth(produce, 64)

    assert lines <= LINEAR
    assert size <= LINEAR

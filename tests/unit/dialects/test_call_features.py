"""Every field of a call is sent, applied to the answer, or named as lost."""

from __future__ import annotations

from typing import Any

import attrs
import pytest

from fidelity.calls import (
    FIELDS,
    READ_FROM_ANSWER,
    Vendor,
    compose_request,
    judge_field,
    survey_vendors,
)
from vibe_llms.messages.canisters import Origin
from vibe_llms.models.genera import Genus
from vibe_llms.testing.simulator import Simulator

FIXED = Origin(provider="vendor", model="model")
CASES = [(genus, vendor) for genus in FIELDS for vendor in survey_vendors(genus)]
NAMES = [f"{genus}-{vendor.title}" for genus, vendor in CASES]


@pytest.mark.parametrize(("genus", "vendor"), CASES, ids=NAMES)
def test_no_field_is_lost_silently(genus: Genus, vendor: Vendor) -> None:
    words = {judge_field(genus, title, vendor).word for title in FIELDS[genus]}

    assert words <= {"kept", "coerced", "dropped", "refused"}


@pytest.mark.parametrize(("title", "field"), sorted(READ_FROM_ANSWER))
async def test_a_field_that_is_not_sent_changes_what_is_read(title: str, field: str) -> None:
    genus, vendor = next(
        (genus, vendor)
        for genus, vendor in CASES
        if vendor.title == title and field in FIELDS[genus]
    )
    names = (field, READ_FROM_ANSWER[title, field])
    async with Simulator() as simulator:
        first, second = [
            await vendor.call(simulator.url, genus, compose_request(genus, name)) for name in names
        ]

    assert read_contents(first) != read_contents(second)


def read_contents(result: Any) -> Any:
    """Return the contents of a result, without its origin, which differs each time."""
    return attrs.evolve(result, origin=FIXED)

"""A line of a vendor's results that cannot be read is an error of ours, however it fails."""

from __future__ import annotations

import pytest

from vibe_llms.exceptions import ConverseError
from vibe_llms.providers import openai_batches
from vibe_llms.providers.anthropic import batches as anthropic_batches

DEEP = b'{"custom_id": "a", "more": ' + b"[" * 99_999 + b"]" * 99_999 + b"}"


@pytest.mark.parametrize("vendor", [anthropic_batches, openai_batches], ids=["anthropic", "openai"])
@pytest.mark.parametrize(
    "line", [DEEP, b"[]", b'{"custom_id": "\xff"}'], ids=["deep", "list", "bytes"]
)
def test_a_result_that_makes_no_sense_is_told_to_be_so(vendor: object, line: bytes) -> None:
    with pytest.raises(ConverseError, match="A result of a batch is invalid"):
        vendor._read_result(line)  # type: ignore[attr-defined]

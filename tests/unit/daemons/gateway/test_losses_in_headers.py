"""Losses go into a header as far as it holds them, and the rest is counted."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.daemons.gateway.loss_headers import write_losses

MAX_BYTES = 4_096


@given(st.lists(st.text(max_size=40) | st.just("é\x7f" * 200) | st.just("x" * 5_000), max_size=60))
def test_a_header_has_as_many_losses_as_it_holds(told: list[str]) -> None:
    text = write_losses(told)
    read = json.loads(text)
    assert text.isascii()
    assert text.isprintable()  # clients refuse a header with DEL
    assert len(text) <= MAX_BYTES
    if len(json.dumps(told).replace("\x7f", "\\u007f")) <= MAX_BYTES:
        assert read == told
        return
    kept, rest = read[:-1], read[-1]
    assert kept == told[: len(kept)]
    assert rest == f"and {len(told) - len(kept)} more"
    # The next one does not fit any more, but for the digits of the count.
    with_next = json.dumps([*kept, told[len(kept)], rest]).replace("\x7f", "\\u007f")
    assert len(with_next) > MAX_BYTES - len(f"{len(told)}")

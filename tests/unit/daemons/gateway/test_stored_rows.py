"""What the registry says of a response when several processes write of it."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import attrs

from vibe_llms.daemons.gateway.responses import rows
from vibe_llms.daemons.gateway.responses.registry import ResponseDatabase


async def test_what_has_ended_is_not_ended_again(tmp_path: Path) -> None:
    """Whoever looked before its owner wrote the end does not take that back."""
    registry = ResponseDatabase(tmp_path)
    begun = rows.GatewayResponse(id="r", subject="", address="a:b", status="in_progress")
    await registry.perform(partial(rows.write_response, response=begun))
    done = attrs.evolve(begun, status="completed", output=("said",))
    await registry.perform(partial(rows.update_response, response=done))

    for status in ("incomplete", "cancelled"):
        late = attrs.evolve(begun, status=status)
        assert await registry.perform(partial(rows.end_response, response=late)) == done
        assert await registry.perform(partial(rows.find_response, identity="r")) == done
    await registry.close()


async def test_what_runs_is_ended_and_what_is_gone_stays_gone(tmp_path: Path) -> None:
    registry = ResponseDatabase(tmp_path)
    begun = rows.GatewayResponse(id="r", subject="", address="a:b", status="in_progress")
    ended = attrs.evolve(begun, status="incomplete")
    await registry.perform(partial(rows.end_response, response=ended))
    assert await registry.perform(partial(rows.find_response, identity="r")) is None
    await registry.perform(partial(rows.write_response, response=begun))
    assert await registry.perform(partial(rows.end_response, response=ended)) == ended
    assert await registry.perform(partial(rows.find_response, identity="r")) == ended
    await registry.close()

"""Requests that come back: a gateway that is its own upstream, by whatever way, refuses them."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Final

from vibe_llms.exceptions import ProviderError, ProviderFault, Stage
from vibe_llms.wire.tracing import VIA, VIA_HEADER

_MOST: Final = 8
"""Through so many gateways a request may come: each worker process is one of its own."""

_LOOP_STATUS: Final = 508
"""Loop Detected (https://www.rfc-editor.org/rfc/rfc5842#section-7.2)."""


def name_gateway() -> str:
    """Makes up what a gateway calls itself before others."""
    return secrets.token_hex(6)


def enter(name: str, headers: Mapping[str, str]) -> None:
    """Notes that a request comes through a gateway, in whatever its task sends from here on.

    Args:
        name: Of the gateway.
        headers: Of the request.

    Raises:
        ProviderError: It has come through this one already, or through too many.
    """
    before = [each.strip() for each in headers.get(VIA_HEADER, "").split(",") if each.strip()]
    if name in before or len(before) >= _MOST:
        how = "come back to" if name in before else f"come through {len(before)} gateways before"
        raise ProviderError(
            provider="gateway",
            fault=ProviderFault.INVALID_REQUEST,
            status=_LOOP_STATUS,
            detail=f"The request has {how} this gateway: some provider's base_url leads to itself.",
            remedy="Let the base_url of each provider lead to another server than the gateway.",
            should_retry=False,
            stage=Stage.FRAME,
        )
    VIA.set(",".join([*before, name]))

"""Loop detection: refuse requests that have already passed this gateway."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Final

from vibe_llms.exceptions import ProviderError, ProviderFault, Stage
from vibe_llms.wire.tracing import VIA, VIA_HEADER

_MAX_GATEWAYS: Final = 8
"""Most gateways that a request may pass; each worker process is one."""

_LOOP_STATUS: Final = 508
"""Loop Detected (https://www.rfc-editor.org/rfc/rfc5842#section-7.2)."""


def name_gateway() -> str:
    """Generate the name of a gateway for the ``via`` header."""
    return secrets.token_hex(6)


def enter(name: str, headers: Mapping[str, str]) -> None:
    """Add the gateway to the ``via`` header of everything that this task sends.

    Args:
        name: The gateway's name.
        headers: Headers of the request.

    Raises:
        ProviderError: The request has passed this gateway before, or too many others.
    """
    passed = headers.get(VIA_HEADER)
    if not passed:
        VIA.set(name)
        return
    gateways = [each.strip() for each in passed.split(",") if each.strip()]
    if name in gateways or len(gateways) >= _MAX_GATEWAYS:
        how = "returned to" if name in gateways else f"passed {len(gateways)} gateways before"
        raise ProviderError(
            provider="gateway",
            fault=ProviderFault.INVALID_REQUEST,
            status=_LOOP_STATUS,
            detail=f"The request has {how} this gateway: a provider's base_url leads to the "
            "gateway itself.",
            remedy="Point the base_url of each provider at a server other than this gateway.",
            should_retry=False,
            stage=Stage.FRAME,
        )
    VIA.set(",".join([*gateways, name]))

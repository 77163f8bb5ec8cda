"""Authentication: every key is valid, unless it is empty or contains the word wrong or invalid."""

from __future__ import annotations

from vibe_llms.testing.simulator.protocols import SimulatedRequest
from vibe_llms.testing.simulator.refusals import SimulatedRefusal

WRONG = ("wrong", "invalid")
"""Keys that contain one of these words are refused."""
ABSENT = "does-not-exist"
"""Models with this text in their name are not found."""


def check_bearer(request: SimulatedRequest) -> None:
    """Refuse a request without ``Authorization: Bearer`` or ``api-key``."""
    scheme, _, key = request.headers.get("authorization", "").partition(" ")
    key = key.strip() if scheme.lower() == "bearer" else ""
    key = key or request.headers.get("api-key", "")
    if not key:
        raise SimulatedRefusal(
            401,
            "authentication",
            "You didn't provide an API key. You need to provide your API key in an Authorization "
            "header using Bearer auth (i.e. Authorization: Bearer YOUR_KEY).",
        )
    if any(word in key for word in WRONG):
        raise SimulatedRefusal(
            401,
            "authentication",
            f"Incorrect API key provided: {key[:4]}****.",
            code="invalid_api_key",
        )


def check_model(model: str) -> None:
    """Refuse a model whose name says that it does not exist."""
    if ABSENT in model:
        raise SimulatedRefusal(
            404,
            "missing",
            f"The model `{model}` does not exist or you do not have access to it.",
            code="model_not_found",
        )

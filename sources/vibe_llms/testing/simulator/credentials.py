"""Authentication: any key is valid, except an empty one or one that says it is wrong."""

from __future__ import annotations

from vibe_llms.testing.simulator.complaints import SimulatedRefusal
from vibe_llms.testing.simulator.faces import SimulatedRequest

WRONG = ("wrong", "invalid")
"""Keys with one of these words are refused."""
ABSENT = "does-not-exist"
"""Models with this in their name are not found."""


def check_bearer(setting: SimulatedRequest) -> None:
    """Refuse a request without ``Authorization: Bearer`` or ``api-key``."""
    scheme, _, key = setting.headers.get("authorization", "").partition(" ")
    key = key.strip() if scheme.lower() == "bearer" else ""
    key = key or setting.headers.get("api-key", "")
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

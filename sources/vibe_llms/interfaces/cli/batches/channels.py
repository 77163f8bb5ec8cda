"""Models and channels of batches, built from the options of ``vibe batch``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from vibe_llms.interfaces.cli.access import load_application_and_address
from vibe_llms.interfaces.cli.option_values import parse_controls

if TYPE_CHECKING:
    from collections.abc import Callable

    from vibe_llms.instruments.models import Model

_Channel = TypeVar("_Channel")

STANDARD: Final = "-"
"""Name of standard input or output in place of a file."""


def produce_model(options: dict[str, Any]) -> Model:
    """Build the model from the options. Raises ConfigurationError."""
    from vibe_llms.instruments.models import Model

    application, address = load_application_and_address(options)
    return Model(
        address,
        application=application,
        strict=options["strict"],
        **parse_controls(options["controls"]),
    )


def produce_channel(
    kind: Callable[..., _Channel], model: Model, output: str, options: dict[str, Any], **more: Any
) -> _Channel:
    """Build the channel of a batch.

    Args:
        kind: The class of the channel.
        more: Further arguments of this class.
    """
    return kind(
        model,
        journal=None if output == STANDARD else output,
        retry_failed=options["retry_failed"],
        prompt=options["template"],
        parser=options["parser"],
        **({"system": options["system"]} if options["system"] else {}),
        **more,
    )

"""Models and channels of batches, built from the options of ``vibe batch``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from vibe_llms.interfaces.cli.access import (
    load_application,
    load_application_and_address,
    warn_untrusted,
)
from vibe_llms.interfaces.cli.option_values import parse_controls

if TYPE_CHECKING:
    from collections.abc import Callable

    from vibe_llms.batches.text_work import Instrument
    from vibe_llms.instruments.models import Model

_Channel = TypeVar("_Channel")

STANDARD: Final = "-"
"""Name of standard input or output in place of a file."""

CONVERSER: Final = "converser"
EMBEDDER: Final = "embedder"


def produce_work(options: dict[str, Any]) -> Model | Instrument:
    """Build the model of any genus from the options. Raises ConfigurationError."""
    genus = options["genus"]
    if genus == CONVERSER:
        return produce_model(options)
    from vibe_llms.batches.text_work import produce_instrument
    from vibe_llms.interfaces.cli.option_values import compose_address

    address = compose_address(options["model"], options["provider"]) or ""
    application = load_application(yes=options["yes"])
    warn_untrusted(application.configuration)
    names = ("dimensions", "purpose") if genus == EMBEDDER else ()
    more = {name: options[name] for name in names}
    return produce_instrument(genus, address, {"strict": options["strict"], **more}, application)


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
    kind: Callable[..., _Channel],
    model: Model | Instrument,
    output: str,
    options: dict[str, Any],
    **more: Any,
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

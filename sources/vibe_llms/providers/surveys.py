"""Which models a vendor has: asked at most once a day, kept on the disk, with its age.

The copy is in the provider's cache directory. A torn or strange one is as good as none; an old one
is better than none, when the vendor cannot be asked.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final, Literal, TypeAlias

import attrs
import msgspec

from vibe_llms.exceptions import ConverseError, UnknownNameError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.files import read_file, replace_file
from vibe_llms.foundation.json_types import JsonValue

MAXIMUM_AGE_SECONDS: Final = 86_400.0
_FILE_NAME: Final = "models.json"

Told: TypeAlias = Literal["yes", "no", "unknown"]
"""What a list says of a capability."""


@frozen(kw_only=True)
class SurveyedModel:
    """What a vendor's list says about one model.

    Attributes:
        name: In the vendor's words, as a request names it.
        title: The name to show.
        context_window_tokens: Input and output together, at most.
        output_limit_tokens: Output, at most.
        capabilities: By the names of the key table, such as ``supports_images``: ``yes`` or ``no``.
    """

    name: str
    title: str | None = None
    context_window_tokens: int | None = None
    output_limit_tokens: int | None = None
    capabilities: Mapping[str, Told] = attrs.field(factory=dict)

    @property
    def learnt(self) -> dict[str, JsonValue]:
        """The same with the keys of an attribute file, without what was not said."""
        said: dict[str, JsonValue] = {
            "title": self.title,
            "context_window_tokens": self.context_window_tokens,
            "output_limit_tokens": self.output_limit_tokens,
            **self.capabilities,
        }
        return {key: value for key, value in said.items() if value is not None}


@frozen(kw_only=True)
class Survey:
    """The models of a vendor at some time.

    Attributes:
        models: In the vendor's order.
        fetched_at: When the vendor said so, in UTC.
        address: Whom it was asked of: scheme, host and port.
        format: Of the file in which it is kept, as it stands here.
    """

    format: Literal[1] = 1
    fetched_at: Annotated[datetime, msgspec.Meta(tz=True)]
    address: str = ""
    models: tuple[SurveyedModel, ...]

    @property
    def age_seconds(self) -> float:
        """How long ago that was; never negative, whatever the clock does."""
        return max((datetime.now(UTC) - self.fetched_at).total_seconds(), 0.0)


async def acquire_survey(
    directory: Path,
    fetch: Callable[[], Awaitable[Sequence[SurveyedModel]]],
    *,
    address: str = "",
    refresh: bool = False,
) -> Survey:
    """Returns the kept copy where it is young enough, and else asks and keeps the answer.

    Args:
        directory: The provider's own cache directory; made where it is missing.
        fetch: Asks the vendor.
        address: Where the vendor is asked. A copy from elsewhere, which another base URL
            brought, is none.
        refresh: Ask, however young the copy is.

    Raises:
        ConverseError: The vendor cannot be asked, and there is no copy of any age.
    """
    kept = access_survey(directory)
    if kept is not None and kept.address != address:
        kept = None
    if kept is not None and not refresh and _is_young(kept):
        return kept
    try:
        models = tuple(await fetch())
    except ConverseError:
        if kept is None:
            raise
        return kept
    survey = Survey(models=models, fetched_at=datetime.now(UTC), address=address)
    with contextlib.suppress(OSError):  # a full or read-only disk costs the next call, not this
        directory.mkdir(parents=True, exist_ok=True)
        replace_file(directory / _FILE_NAME, msgspec.json.encode(survey), mode=0o600)
    return survey


def access_survey(directory: Path) -> Survey | None:
    """Reads the kept copy, of whatever age; ``None`` where there is none that can be read."""
    try:
        return msgspec.json.decode(read_file(directory / _FILE_NAME), type=Survey)
    except (OSError, msgspec.DecodeError, RecursionError, ValueError):
        return None


def choose_only(provider: str, names: Sequence[str]) -> str:
    """Returns the only model that there is. Raises UnknownNameError where there are others."""
    if len(names) == 1:
        return names[0]
    several = f"{provider} has several models: {', '.join(names)}."
    example = f"{provider}:{(*names, 'NAME')[0]}"
    raise UnknownNameError(
        kind="model",
        name=provider,
        known=tuple(names),
        detail=several if names else f"{provider} tells of no model.",
        remedy=f"Name one, as {example}, or set model in [providers.{provider}].",
    )


def describe_age(seconds: float) -> str:
    """Writes an age for people, such as ``just now`` and ``3 hours ago``."""
    for length, word in ((86_400, "day"), (3600, "hour"), (60, "minute")):
        count = int(seconds // length)
        if count:
            return f"{count} {word}{'s' if count > 1 else ''} ago"
    return "just now"


def _is_young(survey: Survey) -> bool:
    # A copy from the future, after a clock went wrong, would else be young for years.
    age = (datetime.now(UTC) - survey.fetched_at).total_seconds()
    return -60.0 <= age <= MAXIMUM_AGE_SECONDS


def is_sound(model: SurveyedModel) -> bool:
    """Tells whether all that is said of a model is of its kind; who says it can be anybody."""
    try:
        msgspec.convert(attrs.asdict(model), SurveyedModel)
    except msgspec.ValidationError:
        return False
    return True

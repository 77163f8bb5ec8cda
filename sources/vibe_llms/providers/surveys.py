"""Lists of vendors' models: requested at most once a day, and cached on disk with their age.

The cached list is in the provider's cache directory. A damaged list is ignored; an old list is used
if the vendor cannot be reached.
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

CapabilityWord: TypeAlias = Literal["yes", "no", "unknown"]
"""Value of a capability in a vendor's list."""


@frozen(kw_only=True)
class SurveyedModel:
    """One model in a vendor's list.

    Attributes:
        name: The vendor's name, as in requests.
        title: The display name.
        context_window_tokens: Maximum input and output together.
        output_limit_tokens: Maximum output.
        capabilities: By the names of the key table, such as ``supports_images``: ``yes`` or ``no``.
    """

    name: str
    title: str | None = None
    context_window_tokens: int | None = None
    output_limit_tokens: int | None = None
    capabilities: Mapping[str, CapabilityWord] = attrs.field(factory=dict)

    @property
    def facts(self) -> dict[str, JsonValue]:
        """The known values, with the keys of an attribute file."""
        fields: dict[str, JsonValue] = {
            "title": self.title,
            "context_window_tokens": self.context_window_tokens,
            "output_limit_tokens": self.output_limit_tokens,
            **self.capabilities,
        }
        return {key: value for key, value in fields.items() if value is not None}


@frozen(kw_only=True)
class Survey:
    """The models of a vendor at some time.

    Attributes:
        models: The models, in the vendor's order.
        fetched_at: The time of the vendor's answer, in UTC.
        address: Address of the request: scheme, host and port.
        format: Version of the file format.
    """

    format: Literal[1] = 1
    fetched_at: Annotated[datetime, msgspec.Meta(tz=True)]
    address: str = ""
    models: tuple[SurveyedModel, ...]

    @property
    def age_seconds(self) -> float:
        """Age of the list; never negative, even if the clock was changed."""
        return max((datetime.now(UTC) - self.fetched_at).total_seconds(), 0.0)


async def acquire_survey(
    directory: Path,
    fetch: Callable[[], Awaitable[Sequence[SurveyedModel]]],
    *,
    address: str = "",
    refresh: bool = False,
) -> Survey:
    """Return the cached list if it is recent; otherwise request and cache a new list.

    Args:
        directory: The provider's cache directory; created if missing.
        fetch: Requests the list from the vendor.
        address: The vendor's address. A list from another address is ignored.
        refresh: Request the list even if the cached one is recent.

    Raises:
        ConverseError: The request failed, and there is no cached list.
    """
    cached = access_survey(directory)
    if cached is not None and cached.address != address:
        cached = None
    if cached is not None and not refresh and _is_recent(cached):
        return cached
    try:
        models = tuple(await fetch())
    except ConverseError:
        if cached is None:
            raise
        return cached
    survey = Survey(models=models, fetched_at=datetime.now(UTC), address=address)
    with contextlib.suppress(OSError):  # a full or read-only disk must not fail this call
        directory.mkdir(parents=True, exist_ok=True)
        replace_file(directory / _FILE_NAME, msgspec.json.encode(survey), mode=0o600)
    return survey


def access_survey(directory: Path) -> Survey | None:
    """Read the cached list, regardless of its age; ``None`` if it is missing or unreadable."""
    try:
        return msgspec.json.decode(read_file(directory / _FILE_NAME), type=Survey)
    except (OSError, msgspec.DecodeError, RecursionError, ValueError):
        return None


def choose_only(provider: str, names: Sequence[str]) -> str:
    """Return the only model. Raises UnknownNameError if there are others, or none."""
    if len(names) == 1:
        return names[0]
    many = f"{provider} has several models: {', '.join(names)}."
    example = f"{provider}:{(*names, 'NAME')[0]}"
    raise UnknownNameError(
        kind="model",
        name=provider,
        known=tuple(names),
        detail=many if names else f"{provider} lists no models.",
        remedy=f"Name one, as {example}, or set model in [providers.{provider}].",
    )


def describe_age(seconds: float) -> str:
    """Format an age for people, such as ``just now`` and ``3 hours ago``."""
    for length, word in ((86_400, "day"), (3600, "hour"), (60, "minute")):
        count = int(seconds // length)
        if count:
            return f"{count} {word}{'s' if count > 1 else ''} ago"
    return "just now"


def _is_recent(survey: Survey) -> bool:
    # Not `age_seconds`, as a list from the future, after an error of the clock, is not recent.
    age = (datetime.now(UTC) - survey.fetched_at).total_seconds()
    return -60.0 <= age <= MAXIMUM_AGE_SECONDS


def has_valid_fields(model: SurveyedModel) -> bool:
    """Return whether all fields of a model from a vendor have valid types."""
    try:
        msgspec.convert(attrs.asdict(model), SurveyedModel)
    except msgspec.ValidationError:
        return False
    return True

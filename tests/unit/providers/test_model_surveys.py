"""The list of a vendor's models that is kept on the disk."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import attrs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.exceptions import ConverseError
from vibe_llms.models.integrators import ModelsIntegrator
from vibe_llms.providers.surveys import (
    Survey,
    SurveyedModel,
    access_survey,
    acquire_survey,
    describe_age,
)

MODELS = (
    SurveyedModel(
        name="parrot-2",
        title="Parrot 2",
        context_window_tokens=4096,
        output_limit_tokens=512,
        capabilities={"supports_images": "yes", "supports_audio": "no"},
    ),
    SurveyedModel(name="org/parrot:tiny"),
)


class Vendor:
    """Answers with models, or not at all, and counts how often it is asked."""

    def __init__(self, models: Sequence[SurveyedModel] = MODELS) -> None:
        self.models = models
        self.asked = 0
        self.is_down = False

    async def __call__(self) -> Sequence[SurveyedModel]:
        self.asked += 1
        if self.is_down:
            raise ConverseError(detail="down")
        return self.models


def age(directory: Path, seconds: float) -> None:
    """Makes the kept copy older."""
    path = directory / "models.json"
    document = msgspec.json.decode(path.read_bytes())
    document["fetched_at"] = (datetime.now(UTC) - timedelta(seconds=seconds)).isoformat()
    path.write_bytes(msgspec.json.encode(document))


async def test_a_young_copy_saves_the_question(tmp_path: Path) -> None:
    """The vendor is asked once a day, and what it said comes back as it was."""
    vendor = Vendor()

    first = await acquire_survey(tmp_path / "new", vendor)
    second = await acquire_survey(tmp_path / "new", vendor)

    assert vendor.asked == 1
    assert second == first
    assert first.models == MODELS
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["models.json"]


async def test_a_copy_from_another_address_is_none(tmp_path: Path) -> None:
    """Other servers have other models, and what they have is no answer when this one is down."""
    vendor = Vendor()
    await acquire_survey(tmp_path, vendor, address="https://there")
    await acquire_survey(tmp_path, vendor, address="https://here")
    await acquire_survey(tmp_path, vendor, address="https://here")
    assert vendor.asked == 2
    vendor.is_down = True
    with pytest.raises(ConverseError, match="down"):
        await acquire_survey(tmp_path, vendor, address="https://there")


@pytest.mark.parametrize(("seconds", "asked"), [(3600, 1), (90_000, 2), (-3600, 2)])
async def test_an_old_copy_and_one_from_the_future_are_asked_for_again(
    tmp_path: Path, seconds: float, asked: int
) -> None:
    """A clock that went wrong does not keep a list for years."""
    vendor = Vendor()
    await acquire_survey(tmp_path, vendor)
    age(tmp_path, seconds)

    await acquire_survey(tmp_path, vendor)

    assert vendor.asked == asked


async def test_refreshing_asks_however_young_the_copy_is(tmp_path: Path) -> None:
    """``--refresh`` means it."""
    vendor = Vendor()
    await acquire_survey(tmp_path, vendor)
    vendor.models = MODELS[:1]

    survey = await acquire_survey(tmp_path, vendor, refresh=True)

    assert survey.models == MODELS[:1]
    assert access_survey(tmp_path) == survey


async def test_an_old_copy_is_better_than_none(tmp_path: Path) -> None:
    """Where the vendor cannot be asked, what it said last is given, and its age shows."""
    vendor = Vendor()
    await acquire_survey(tmp_path, vendor)
    age(tmp_path, 3 * 86_400)
    vendor.is_down = True

    survey = await acquire_survey(tmp_path, vendor)

    assert survey.age_seconds > 86_400
    assert survey.models == MODELS
    assert describe_age(survey.age_seconds) == "3 days ago"


async def test_without_any_copy_the_error_is_told(tmp_path: Path) -> None:
    """Nothing is made up."""
    vendor = Vendor()
    vendor.is_down = True

    with pytest.raises(ConverseError, match="down"):
        await acquire_survey(tmp_path, vendor)


def tear(data: bytes) -> bytes:
    return data[: len(data) // 2]


@pytest.mark.parametrize(
    "damage",
    [
        tear,
        lambda data: b"",
        lambda data: b"\xff\xfe",
        lambda data: b"[" * 100_000,
        lambda data: data.replace(b'"format":1', b'"format":2'),
        lambda data: data.replace(b'"parrot-2"', b"7"),
        lambda data: data.replace(b"4096", b'"many"'),
        lambda data: data.replace(b'"name"', b'"nomen"'),
        lambda data: data.replace(b'Z"', b'"'),
        lambda data: b'{"format":1}',
        lambda data: b"null",
    ],
)
async def test_a_damaged_copy_is_fetched_anew(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    """A torn, strange or later file is as good as none."""
    vendor = Vendor()
    await acquire_survey(tmp_path, vendor)
    path = tmp_path / "models.json"
    path.write_bytes(damage(path.read_bytes()))

    assert access_survey(tmp_path) is None
    survey = await acquire_survey(tmp_path, vendor)

    assert vendor.asked == 2
    assert access_survey(tmp_path) == survey


async def test_a_disk_that_takes_nothing_costs_only_the_next_call(tmp_path: Path) -> None:
    """The list is given all the same."""
    (tmp_path / "file").write_text("in the way")

    survey = await acquire_survey(tmp_path / "file" / "cache", Vendor())

    assert survey.models == MODELS


@given(
    st.lists(
        st.builds(
            SurveyedModel,
            name=st.text(st.characters(exclude_categories=["Cs"])),
            title=st.none() | st.text(st.characters(exclude_categories=["Cs"])),
            context_window_tokens=st.none() | st.integers(0, 2**53),
            output_limit_tokens=st.none() | st.integers(0, 2**53),
            capabilities=st.dictionaries(
                st.sampled_from(["supports_images", "supports_schema"]),
                st.sampled_from(["yes", "no", "unknown"]),
            ),
        )
    )
)
def test_what_is_kept_comes_back(
    tmp_path_factory: pytest.TempPathFactory, models: list[SurveyedModel]
) -> None:
    """Writing and reading are inverse, for any names."""
    import asyncio

    directory = tmp_path_factory.mktemp("survey")

    kept = asyncio.run(acquire_survey(directory, Vendor(models)))

    assert access_survey(directory) == kept == attrs.evolve(kept, models=tuple(models))


def test_what_was_learnt_is_in_the_words_of_an_attribute_file() -> None:
    """The integrator takes it as it stands; what the vendor did not say is left open."""
    integrator = ModelsIntegrator(provider="parrots")

    attributes = integrator.integrate("parrot-2", facts=MODELS[0].facts)

    assert attributes.access_value("context_window_tokens") == 4096
    assert attributes.access_capability("supports_images") == "yes"
    assert attributes.access_capability("supports_audio") == "no"
    assert MODELS[1].facts == {}


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "just now"),
        (59, "just now"),
        (60, "1 minute ago"),
        (7199, "1 hour ago"),
        (3 * 3600, "3 hours ago"),
        (200_000, "2 days ago"),
    ],
)
def test_an_age_is_told_in_words(seconds: float, words: str) -> None:
    """The largest unit that fits, and its singular."""
    assert describe_age(seconds) == words


def test_no_age_is_negative() -> None:
    """A clock that was set back makes a copy young, not younger than now."""
    survey = Survey(models=(), fetched_at=datetime.now(UTC) + timedelta(hours=1))

    assert survey.age_seconds == 0

"""Values while they are on their way."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import json
from pathlib import Path
from typing import Any, Literal, NamedTuple

import attrs
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import TypedDict

from support.quality.properties import examples
from support.runs.scripting import write_script
from vibe_llms import Model, SyncModel
from vibe_llms.exceptions import ConverseError, ParseError, RequestError
from vibe_llms.foundation.sentinels import ABSENT
from vibe_llms.instruments.parsers import partials
from vibe_llms.instruments.parsers.answer_following import TextReader
from vibe_llms.instruments.parsers.json_reader import JsonReader, is_growing
from vibe_llms.instruments.parsers.parsers import Parser
from vibe_llms.instruments.parsers.partials import Partial, PartialList, survey_received
from vibe_llms.providers.interfaces import AsyncStream


class Climate(enum.Enum):
    MILD = "mild"
    HARSH = "harsh"


@attrs.frozen
class City:
    name: str
    people: int = 0
    founded: datetime.date | None = None
    climate: Climate = Climate.MILD
    twins: list[City] = attrs.field(factory=list)


@dataclasses.dataclass
class Cat:
    sound: Literal["meow"]
    lives: int


@dataclasses.dataclass
class Dog:
    sound: Literal["woof"]
    tricks: list[str]


class Point(NamedTuple):
    x: float
    y: float


class Options(TypedDict, total=False):
    loud: bool
    words: set[str]


class Home(pydantic.BaseModel):
    name: str


class Person(pydantic.BaseModel):
    full_name: str = pydantic.Field(alias="fullName", min_length=3)
    home: Home | None = None


def glimpse(kind: Any, text: str) -> Any:
    """Returns what a text that breaks off shows of a value."""
    reader = JsonReader()
    reader.feed(text)
    return Parser[Any](kind).kind.view_partial(reader.value)


def test_what_has_not_arrived_is_absent() -> None:
    """A text grows; anything else is there when it is whole, as a value of its type."""
    partial = glimpse(City, '{"name": "Pari')

    assert (partial.name, partial.people, partial.founded) == ("Pari", ABSENT, ABSENT)
    assert is_growing(partial.name)
    assert glimpse(City, '{"name": "Paris", "people": 21').people is ABSENT
    assert glimpse(City, '{"name": "Paris", "people": 21,').people == 21
    assert glimpse(City, '{"founded": "2026-0').founded is ABSENT
    assert glimpse(City, '{"founded": "2026-01-02"').founded == datetime.date(2026, 1, 2)
    assert glimpse(City, '{"founded": null').founded is None
    assert glimpse(City, '{"climate": "hars').climate is ABSENT
    assert glimpse(City, '{"climate": "harsh"').climate is Climate.HARSH
    assert glimpse(City, '{"people": "many",').people is ABSENT


def test_what_is_within_is_partial_too() -> None:
    """Objects within lists within objects."""
    partial = glimpse(City, '{"name": "P", "twins": [{"name": "Rome"}, {"name": "Kyo')

    assert [each.name for each in partial.twins] == ["Rome", "Kyo"]
    assert repr(partial) == (
        "Partial[City](name='P', twins=[Partial[City](name='Rome'), Partial[City](name='Kyo')])"
    )
    assert list(survey_received(partial)) == ["name", "twins"]
    assert partial == glimpse(City, '{"name": "P", "twins": [{"name": "Rome"}, {"name": "Kyo')
    assert partial != glimpse(City, '{"name": "P"')
    with pytest.raises(AttributeError, match="City has no attribute 'mayor'"):
        _ = partial.mayor


def test_every_kind_of_class_can_be_partial() -> None:
    """By the names of attributes, whatever their names in JSON."""
    person = glimpse(Person, '{"fullName": "An", "home": {"name": "P')

    assert (person.full_name, person.home.name) == ("An", "P")
    assert glimpse(Point, '{"x": 1.5, "y": 2').x == 1.5
    assert glimpse(Options, '{"loud": true, "wor') == {"loud": True}
    assert glimpse(Options, '{"words": ["a", "b') == {"words": {"a"}}
    assert glimpse(dict[str, int], '{"a": 1, "b": 2') == {"a": 1}
    assert glimpse({"type": "object"}, '{"a": [1, "x') == {"a": [1, "x"]}


def test_a_union_shows_what_it_may_still_be() -> None:
    """Nothing is decided before it is certain."""
    either = glimpse(Cat | Dog, '{"value": {"sound": "wo')
    dog = glimpse(Cat | Dog, '{"value": {"sound": "woof", "tricks": ["si')

    assert (either.sound, either.lives, either.tricks) == (ABSENT, ABSENT, ABSENT)
    assert (dog.sound, dog.tricks) == ("woof", ["si"])
    with pytest.raises(AttributeError):
        _ = dog.lives
    assert glimpse(str | None, '{"value": "a') == "a"
    assert glimpse(datetime.date | str, '{"value": "2026') is ABSENT
    assert glimpse(datetime.date | str, '{"value": "2026"}') == "2026"


def test_lists_and_plain_values_are_seen_through_the_object_around_them() -> None:
    """What vendors need is not what was asked for."""
    assert glimpse(list[int], '{"value": [1, 2') == [1]
    assert glimpse(list[int], "[1, 2,") == [1, 2]
    assert glimpse(list[int], "[1, 2, 3, 4")[1:] == [2, 3]
    assert glimpse(list[int], "[1, 2,")[-1] == 2
    assert repr(glimpse(list[str], '["a", "b')) == "['a', 'b']"
    assert glimpse(list[int], "[1]") != [2]
    assert glimpse(tuple[int, str], '{"value": [1, "a') == (1, "a")
    assert glimpse(str, '{"value": "a b') == "a b"
    assert glimpse(int, '{"val') is ABSENT


def test_a_long_list_costs_what_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever follows a list of thousands does not make all its items anew with each piece."""
    made = []
    original = partials._view_plain
    monkeypatch.setattr(
        partials, "_view_plain", lambda *given: made.append(given) or original(*given)
    )

    numbers = glimpse(list[int], json.dumps(list(range(1000)))[:-1])

    assert numbers[-1] == 998  # of the last one it is not known whether it has ended
    assert len(numbers) == 999
    assert len(made) == 2


def build_cities(twins: st.SearchStrategy[list[City]]) -> st.SearchStrategy[City]:
    """Makes cities with such twins."""
    return st.builds(
        City,
        name=st.text(max_size=5),
        people=st.integers(),
        founded=st.none() | st.dates(),
        climate=st.sampled_from(Climate),
        twins=twins,
    )


CITIES = build_cities(st.lists(build_cities(st.just([])), max_size=2))


def write(city: City) -> dict[str, Any]:
    """Says a city in JSON."""
    return {
        "name": city.name,
        "people": city.people,
        "founded": city.founded and city.founded.isoformat(),
        "climate": city.climate.value,
        "twins": [write(twin) for twin in city.twins],
    }


def shows(partial: Any, value: Any) -> bool:
    """Tells whether all that a partial value shows is part of a value."""
    if partial is ABSENT:
        return True
    if isinstance(partial, Partial):
        arrived = survey_received(partial)
        return all(shows(each, getattr(value, name)) for name, each in arrived.items())
    if isinstance(partial, PartialList):
        return len(partial) <= len(value) and all(map(shows, partial, value))
    if is_growing(partial):
        return bool(value.startswith(partial))
    return bool(partial == value)


@examples(50)
@given(CITIES, st.booleans())
def test_a_value_is_read_back_and_each_part_of_it_was_true(city: City, ascii_only: bool) -> None:
    """Value, JSON, validation, value: the same; and no prefix has shown anything else."""
    parser, reader = Parser(City), JsonReader()
    text = json.dumps(write(city), ensure_ascii=ascii_only)

    for character in text:
        reader.feed(character)
        assert shows(parser.kind.view_partial(reader.value), city)

    assert parser.read(text) == city
    assert not parser.kind.is_valid({**write(city), "people": "many"})


@given(st.lists(st.sampled_from(['Hm {a} "', "[1]", "```json\n", " ", '{"a": 1}', "}", "{"])))
def test_a_reader_of_text_sees_the_same_however_it_is_split(pieces: list[str]) -> None:
    """Character by character, or all at once."""
    text = "".join(pieces)
    whole, split = TextReader("{"), TextReader("{")

    whole.feed(text)
    for character in text:
        split.feed(character)

    assert repr(whole.value) == repr(split.value)


def test_a_reader_of_text_passes_over_what_only_looks_like_a_value() -> None:
    """And stays with the first value that is one."""
    reader = TextReader("{")
    seen = []
    for piece in ("The {set", '}: ```json\n{"na', 'me": "P', '"}', '\n``` {"b": 1}'):
        reader.feed(piece)
        seen.append(reader.value)

    assert seen == [ABSENT, {}, {"name": "P"}, {"name": "P"}, {"name": "P"}]


PARIS = '{"name": "Paris", "people": 2102650}'


async def test_a_stream_is_followed_to_the_value() -> None:
    """What arrives is seen once, and the last is the value itself."""
    parser = Parser(City)
    async with Model("scripted:echo").stream(PARIS) as stream:
        seen = [each async for each in parser.follow(stream)]

    assert all(isinstance(each, Partial) for each in seen[:-1])
    assert seen[-2].people == 2102650
    assert seen[-1] == City("Paris", 2102650)


def test_a_synchronous_stream_is_followed_by_the_same_words() -> None:
    """Parts and items alike."""
    items = f"[{PARIS}, {PARIS}]"
    with SyncModel("scripted:echo") as model:
        with model.stream(PARIS) as stream:
            *_, last = Parser(City).follow(stream)
        with model.stream(items) as stream:
            cities = list(Parser[Any](list[City]).follow_items(stream))

    assert last == City("Paris", 2102650)
    assert cities == [last, last]


async def test_items_come_as_soon_as_they_are_complete(tmp_path: Path) -> None:
    """Before the next one has begun, and as values of their type."""
    script = write_script(tmp_path, {"contents": [{"text": f'{{"value": [{PARIS}, {PARIS}]}}'}]})
    parser = Parser[Any](list[City])
    seen, texts = [], []
    async with Model(f"scripted:{script}").stream("Cities?") as stream:
        async for city in parser.follow_items(stream):
            seen.append(city)
            texts.append(stream.canisters[-1].content[0])

    assert seen == [City("Paris", 2102650)] * 2
    assert len(getattr(texts[0], "text", "")) < len(PARIS) + 20


async def test_an_item_that_does_not_fit_is_told_after_those_that_do() -> None:
    """Nothing that was good is lost."""
    seen = []

    async def follow(stream: AsyncStream) -> None:
        async for city in Parser[Any](list[City]).follow_items(stream):
            seen.append(city)

    async with Model("scripted:echo").stream(f'[{PARIS}, {{"name": 1}}]') as stream:
        with pytest.raises(ParseError, match=r"answer\.value\[1\]\.name|must be an object"):
            await follow(stream)

    assert seen == [City("Paris", 2102650)]


async def test_only_lists_have_items() -> None:
    """It is said before anything is read."""
    async with Model("scripted:echo").stream("x") as stream:
        for kind in (City, tuple[int, str], {"type": "object"}):
            with pytest.raises(RequestError, match="has no items"):
                await anext(Parser[Any](kind).follow_items(stream))


async def test_a_model_parses_and_tells_what_led_to_the_value() -> None:
    """The value alone, or with the response."""
    async with Model("scripted:echo") as model:
        city = await model.parse(PARIS, City)
        parsed = await model.parse_with_response(PARIS, Parser(City), system="Be exact.")

    assert city == parsed.value == City("Paris", 2102650)
    assert parsed.response.text == PARIS
    assert parsed.response.request.schema == Parser(City).kind.sent_schema
    assert "supports schemas" in str(parsed.choice)


async def test_a_model_mends_while_it_is_followed(tmp_path: Path) -> None:
    """The parts begin anew with each attempt, which is counted."""
    script = write_script(
        tmp_path, {"contents": [{"text": '{"people": 1}'}]}, {"contents": [{"text": PARIS}]}
    )
    async with (
        Model(f"scripted:{script}") as model,
        model.follow("Paris?", City) as following,
    ):
        seen = [(following.attempt, each) async for each in following]
        parsed = await following.parsed()

    assert sorted({attempt for attempt, _ in seen[:-1]}) == [1, 2]
    assert parsed.value == seen[-1][1] == City("Paris", 2102650)
    assert len(parsed.attempts) == 2


async def test_what_is_left_early_stops_and_has_no_value() -> None:
    """The stream is closed with the context."""
    async with Model("scripted:echo") as model:
        async with model.follow(PARIS, City) as following:
            async for _ in following:
                break
        with pytest.raises(ConverseError, match="closed before it was complete"):
            await following.value()


def test_the_synchronous_face_does_the_same() -> None:
    """Values, their attempts, parts and items."""
    with SyncModel("scripted:echo") as model:
        assert model.parse(PARIS, City) == City("Paris", 2102650)
        assert model.parse_with_response("[1]", list[int]).value == [1]
        with model.follow(PARIS, City) as following:
            *_, last = following
            assert last == following.value() == following.parsed().value
            assert following.attempt == 2
        with model.follow("[1, 2]", list[int]) as following:
            assert list(following.items()) == [1, 2]
            assert following.value() == [1, 2]

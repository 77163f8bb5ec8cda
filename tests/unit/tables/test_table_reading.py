"""One reader for all tables: values by the annotations of a class, or all mistakes at once."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.exceptions import ConfigurationError
from vibe_llms.tables.annotations import Count, Seconds, String, Strings
from vibe_llms.tables.documents import parse_document, read_document
from vibe_llms.tables.kinds import WEB_ADDRESS, bound
from vibe_llms.tables.reading import TableReader, locate_by_name, read_table, require


class Tone(enum.StrEnum):
    """How it speaks."""

    SOFT = "soft"
    LOUD = "loud"


@attrs.frozen(kw_only=True)
class Bell:
    """A table in a table."""

    tone: Tone
    strokes: Count = 1


@attrs.frozen(kw_only=True)
class Clock:
    """Everything that a field can be."""

    name: str
    maker: str = ""
    note: String = ""
    hours: Literal["12", "24"] = "24"
    is_wound: bool = False
    jewels: Annotated[int, bound("a whole number from 1 to 99", 1, 99)] = 17
    drift: float = 0.0
    period: Seconds | None = None
    shop: Annotated[str, WEB_ADDRESS] = ""
    manual: Path | None = None
    owners: tuple[str, ...] = ()
    marks: Strings = ()
    labels: Mapping[str, str] = attrs.field(factory=dict)
    bell: Bell | None = None
    bells: tuple[Bell, ...] = ()

    def __attrs_post_init__(self) -> None:
        require(self, f"clocks.{self.name}")

    def find_mistakes(self) -> Any:
        """What holds between fields."""
        if self.bell and self.bells:
            yield "bells", "There is a bell already."


def parse(text: str, place: str = "clock.toml") -> list[str]:
    """Reads a clock; returns what is wrong with it."""
    reader = parse_document(text.encode(), place).produce_reader()
    reader.read(Clock, parse_document(text.encode(), place).tree, ())
    return [str(finding) for finding in reader.findings]


def test_a_class_says_what_its_table_may_have() -> None:
    """Each field by its annotation; what may be left out has a default."""
    table = {
        "name": "big",
        "hours": "12",
        "period": 2,
        "manual": "m.pdf",
        "owners": ["a"],
        "labels": {"x": ""},
        "bell": {"tone": "loud"},
    }

    clock = read_table(Clock, table, "clocks.big")

    assert clock == Clock(
        name="big",
        hours="12",
        period=2,
        manual=Path("m.pdf"),
        owners=("a",),
        labels={"x": ""},
        bell=Bell(tone=Tone.LOUD),
    )
    assert clock.bell is not None
    assert clock.bell.tone is Tone.LOUD


def test_all_mistakes_are_told_at_once_with_line_path_rule_and_nearest_word() -> None:
    """One run shows every one of them."""
    text = """naem = "x"
hours = "13"
is_wound = 1
jewels = 100
drift = true
period = inf
owners = ["a", ""]
[labels]
x = 1
[bell]
tone = "mild"
stroks = 2
[[bells]]
strokes = 0
[[bells]]
tone = "soft"
"""

    assert parse(text) == [
        "clock.toml:1: naem: Unknown setting; did you mean 'name'?",
        'clock.toml:2: hours: It must be "12" or "24", not \'13\'.',
        "clock.toml:3: is_wound: It must be true or false, not 1.",
        "clock.toml:4: jewels: It must be a whole number from 1 to 99, not 100.",
        "clock.toml:5: drift: It must be a number, not true.",
        "clock.toml:6: period: It must be a number of seconds above 0, not inf.",
        "clock.toml:7: owners: It must be a list of texts that are not empty.",
        "clock.toml:8: labels: It must be a table of texts.",
        'clock.toml:11: bell.tone: It must be "soft" or "loud", not \'mild\'.',
        "clock.toml:12: bell.stroks: Unknown setting; did you mean 'strokes'?",
        "clock.toml:14: bells[0].strokes: It must be a whole number of at least 1, not 0.",
        'clock.toml:13: bells[0]: Missing key \'tone\'; it must be "soft" or "loud".',
    ]


def test_a_rule_between_fields_knows_the_line_of_its_field() -> None:
    """Whoever made the value: a file, or a program without one."""
    text = 'name = "a"\nbell.tone = "soft"\n[[bells]]\ntone = "soft"\n'

    assert parse(text) == ["clock.toml:3: bells: There is a bell already."]
    with pytest.raises(ConfigurationError, match=r"^clocks\.a: bells: There is a"):
        Clock(name="a", bell=Bell(tone=Tone.SOFT), bells=(Bell(tone=Tone.SOFT),))
    with pytest.raises(ConfigurationError, match=r"^clocks\.a: jewels: It must be"):
        Clock(name="a", jewels=0)


def test_what_is_missing_is_at_the_line_of_what_lies_around_it() -> None:
    """A key that nobody wrote has no line of its own."""
    document = parse_document(b'name = "a"\n[bell]\ntone = "soft"\n', "clock.toml")

    assert document.locate(("bell", "strokes")) == ("clock.toml", 2, 0, "bell.strokes")
    assert document.locate(("bells", 0, "tone")) == ("clock.toml", 0, 0, "bells[0].tone")


def test_a_text_that_could_be_a_secret_is_not_repeated() -> None:
    """An address may hold a password, and a misplaced key anything."""
    found = parse('name = "a"\nshop = "sk-secret"\nmaker = ["sk-secret"]\n')

    assert found == [
        "clock.toml:2: shop: It must be an address such as https://example.org.",
        "clock.toml:3: maker: It must be a text that is not empty, not a list.",
    ]


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"\na = = 1", "clock.toml:2: Invalid TOML: Invalid value."),
        (b"\n# \xff", "clock.toml:2: TOML files must be UTF-8."),
        (b"a = " + b"[" * 9000, "nest too deeply"),
        (b"a = " + b"9" * 9000, "Exceeds the limit"),
        (b"#" * 1_000_001, "The file is larger than 1000000 bytes."),
        (None, "Cannot read the file: No such file"),
    ],
)
def test_a_file_that_cannot_be_read_says_why(tmp_path: Path, raw: bytes | None, words: str) -> None:
    """With its line, where there is one."""
    path = tmp_path / "clock.toml"
    if raw is not None:
        path.write_bytes(raw)

    with pytest.raises(ConfigurationError) as caught:
        read_document(path)

    assert words in str(caught.value)


_PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)
_NAMES = st.sampled_from([field.name for field in attrs.fields(Clock)])


@given(st.dictionaries(_NAMES | st.text(max_size=5), _PLAIN, max_size=5) | _PLAIN)
def test_whatever_is_written_is_a_value_or_a_mistake(table: Any) -> None:
    """And what was read holds when a program makes it again."""
    reader = TableReader(locate_by_name("clocks"))
    clock = reader.read(Clock, table)
    assert (clock is None) == bool(reader.findings)
    assert clock is None or attrs.evolve(clock) == clock

"""A prompt: its variables, its values, and what it becomes."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import attrs
import pytest

from vibe_llms import (
    ConverseError,
    ImageContent,
    Prompt,
    SupervisorCanister,
    TextualContent,
    UserCanister,
)
from vibe_llms.exceptions import ConfigurationError, RequestError

PICTURE = ImageContent(mime_type="image/png", data=b"picture")


def check_refused(text: str, *lines: str, **options: object) -> None:
    """Asserts that a template is refused with these findings, and no others."""
    with pytest.raises(ConfigurationError) as caught:
        Prompt(text, name="p", **options)  # type: ignore[arg-type]

    assert [str(finding) for finding in caught.value.findings] == list(lines)


def test_a_prompt_is_rendered_with_its_values() -> None:
    """What stands in braces is replaced; lines that only decide something leave no line."""
    prompt = Prompt("Dear {{ name }},\n{% for item in items %}\n- {{ item }}\n{% endfor %}\nBye.")

    assert prompt.render(name="Ada", items=["one", 2]) == "Dear Ada,\n- one\n- 2\nBye."


def test_nothing_is_escaped() -> None:
    """A prompt is no web page: a text goes in as it is, and JSON as people read it."""
    prompt = Prompt("{{ text }} {{ data|tojson }}")

    assert prompt.render(text="<b> & 'c'", data={"é": "<"}) == '<b> & \'c\' {"é": "<"}'


def test_the_variables_are_known_before_anything_is_rendered() -> None:
    """All are told, those of the instructions and partials too, and which must be given."""
    prompt = Prompt(
        "{{ question }}{% include 'ending' %}",
        system="Speak {{ language|default('English') }}.",
        partials={"ending": "{% if mood is defined %}{{ mood }}{% endif %}{{ name }}"},
    )

    assert prompt.variables == {"question", "language", "mood", "name"}
    assert prompt.required == {"question", "name"}


@pytest.mark.parametrize(
    ("text", "required"),
    [
        ("{{ a }}", "a"),
        ("{{ a|default('') }}", ""),
        ("{{ a|d }}{{ a }}", "a"),
        ("{{ a|upper|default('') }}", "a"),
        ("{{ a.b|default('') }}", "a"),
        ("{{ a|default(b) }}", "b"),
        ("{% if a is defined %}{{ a }}{% else %}{{ b }}{% endif %}", "b"),
        ("{% if a is not defined %}{{ b }}{% else %}{{ a }}{% endif %}", "b"),
        ("{% if a is undefined %}{% elif c %}{{ a }}{% endif %}", "c"),
        ("{% if a is defined and a %}{{ a }}{% endif %}", ""),
        ("{% if a is defined or b %}{{ a }}{% endif %}", "ab"),
        ("{% if a is undefined or a == 1 %}{% endif %}", ""),
        ("{% if not (a is undefined or b) %}{{ a }}{% endif %}", "b"),
        ("{{ a if a is defined }}", ""),
        ("{{ b if a is undefined else a }}", "b"),
        ("{% set a = a|default(1) %}{{ a }}", ""),
        ("{% if b %}{% set a = 1 %}{{ a }}{% endif %}", "b"),
        ("{% if b %}{% set a = 1 %}{% else %}{% set a = 2 %}{% endif %}{{ a }}", "b"),
        ("{% if b %}{% set a = 1 %}{% endif %}{{ a }}", "ab"),
        ("{% if b %}{{ a }}{% set a = 1 %}{% else %}{% set a = 2 %}{% endif %}{{ a }}", "ab"),
        ("{% if b %}{% set a = a %}{% else %}{% set a = 2 %}{% endif %}{{ a }}", "ab"),
        (
            "{% if b %}{% set a = 1 %}{% elif c %}{% if d %}{% set a, e = 1, 2 %}{% else %}"
            "{% set a %}x{% endset %}{% endif %}{% else %}{% set a = 2 %}{% endif %}{{ a }}",
            "bcd",
        ),
        ("{% if b %}{% set a = 1 %}{% elif c %}{% else %}{% set a = 2 %}{% endif %}{{ a }}", "abc"),
        ("{% for a in b %}{{ a }}{{ loop.index }}{% endfor %}", "b"),
        ("{% for a in b %}{% endfor %}{{ a }}", "ab"),
        ("{% macro m(a, c=b) %}{{ a }}{{ c }}{% endmacro %}{{ m(1) }}", "b"),
        ("{% with a = b %}{{ a }}{% endwith %}", "b"),
        ("{{ range(3)|list }}{{ dict(x=1) }}{{ namespace }}", ""),
    ],
)
def test_a_variable_is_required_unless_each_mention_of_it_is_guarded(
    text: str, required: str
) -> None:
    """``default`` guards a mention, and so does having asked whether it is ``defined``."""
    assert Prompt(text).required == set(required)


def test_missing_and_unknown_values_are_told_at_once() -> None:
    """Whoever has three values wrong hears of three, with the nearest right words."""
    prompt = Prompt("{{ name }} {{ place }} {{ tone|default('') }}", name="greet")

    with pytest.raises(RequestError) as caught:
        prompt.render(nmae="Ada", tone="dry", zebra=1)

    assert str(caught.value) == (
        "Cannot render the prompt 'greet': 'name' is missing; 'place' is missing; unknown"
        " variable 'nmae' (did you mean 'name'?); unknown variable 'zebra'."
        " Its variables: name, place, tone (optional)."
    )


def test_a_prompt_without_variables_says_so() -> None:
    """There is nothing to choose from."""
    with pytest.raises(RequestError, match=r"unknown variable 'x'\. It has no variables\."):
        Prompt("Hello").render(x=1)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("Hi\n{{ foo", "p:2:4: Unexpected end of template, expected 'end of print statement'."),
        ("Hi {{ a b }}", "p:1:9: Expected token 'end of print statement', got 'b'."),
        ("é {{ $ }}", "p:1:6: Unexpected char '$'."),
        ("{% if a %}\n  {% endfor %}", None),
        ("x\n  {% nope %}", "p:2:6: Encountered unknown tag 'nope'."),
        ("{{ a|uper }}", "p:1:6: Unknown filter 'uper'; did you mean 'upper'?"),
        ("{{ a is definde }}", "p:1:6: Unknown test 'definde'; did you mean 'defined'?"),
        (
            "{% extends 'x' %}",
            "p:1:4: Prompts do not support 'extends': include partials, or import macros.",
        ),
        ("\n{% block b %}{% endblock %}", None),
        ("{% autoescape true %}{% endautoescape %}", None),
        ("{% for a in b recursive %}{% endfor %}", None),
    ],
)
def test_a_template_that_does_not_hold_is_refused_with_line_and_column(
    text: str, line: str | None
) -> None:
    """The mistake is found when the prompt is made, where it stands, with the nearest word."""
    with pytest.raises(ConfigurationError) as caught:
        Prompt(text, name="p")

    (finding,) = caught.value.findings
    assert finding.line
    assert finding.column
    assert line in (None, str(finding))


def test_all_that_is_wrong_with_names_is_told_at_once() -> None:
    """Filters, tests and partials are looked up together."""
    check_refused(
        "{{ a|uper }}\n {{ b is evn }} {% include 'x' %}{% include a %}",
        "p:1:6: Unknown filter 'uper'; did you mean 'upper'?",
        "p:2:7: Unknown test 'evn'; did you mean 'even'?",
        "p:2:20: Unknown partial 'x'.",
        "p:2:37: The name of a partial must be a text, not a variable: choose with 'if' instead.",
    )


def test_a_template_that_nests_too_deeply_is_refused() -> None:
    """Neither Jinja's parser nor Python's gets lost in it."""
    for text in ("{{ " + "(" * 5000 + ")" * 5000 + " }}", "{% if 1 %}" * 150 + "{% endif %}" * 150):
        with pytest.raises(ConfigurationError, match="nests too deeply"):
            Prompt(text)


def test_what_goes_wrong_with_values_is_told_with_its_line() -> None:
    """An attribute that is not there, and an operator that does not fit, have a place."""
    prompt = Prompt("Hi\n  {{ user.nam }}", name="p")
    other = Prompt("{{ 1 + count }}", name="p")

    with pytest.raises(RequestError, match=r"^p:2:11: 'dict object' has no attribute 'nam'\."):
        prompt.render(user={"name": "Ada"})
    with pytest.raises(RequestError, match=r"^p:1: TypeError: unsupported operand") as caught:
        other.render(count="2")

    assert isinstance(caught.value.__cause__, TypeError)


def test_a_prompt_becomes_canisters() -> None:
    """The instructions come first, as a supervisor's; blank ones are left out."""
    prompt = Prompt("Hello {{ name }}", system="{{ manner|default('') }}")

    supervisor, user = prompt.compose(name="Ada", manner="Be brief.")
    alone = prompt.compose(name="Ada")

    assert isinstance(supervisor, SupervisorCanister)
    assert isinstance(user, UserCanister)
    assert supervisor.content == (TextualContent("Be brief."),)
    assert user.content == (TextualContent("Hello Ada"),)
    assert [type(each) for each in alone] == [UserCanister]


def test_contents_stand_where_they_are_printed() -> None:
    """Pictures stay whole, in loops, macros and partials too; blank pieces are left out."""
    other = ImageContent(mime_type="image/png", data=b"other")
    prompt = Prompt(
        "Compare:\n{% for each in pictures %}{{ each }}\n{% endfor %}{% include 'last' %}",
        partials={"last": "{% set kept %}with {{ first }}.{% endset %}{{ kept }}"},
    )

    contents = prompt.render_contents(pictures=[PICTURE, other], first=PICTURE)

    assert contents == (
        TextualContent("Compare:\n"),
        PICTURE,
        other,
        TextualContent("\nwith "),
        PICTURE,
        TextualContent("."),
    )


def test_contents_can_be_joined_and_chosen() -> None:
    """Filters that do not change texts can be applied to them."""
    prompt = Prompt("{{ pictures|join(' and ') }}{{ pictures|first }}{{ 'x' ~ pictures[0] }}")

    contents = prompt.render_contents(pictures=[PICTURE, PICTURE])

    assert [each.type for each in contents] == ["image", "text", "image", "image", "text", "image"]


def test_contents_do_not_become_text_in_silence() -> None:
    """Neither by asking for a text, nor by a filter, nor among the instructions."""
    with pytest.raises(RequestError, match="Use render_contents for them"):
        Prompt("{{ a }}").render(a=PICTURE)
    with pytest.raises(RequestError, match="a filter changed the placeholder"):
        Prompt("{{ a|truncate(9, true, '') }}").render_contents(a=PICTURE)
    with pytest.raises(RequestError, match="not 'system'"):
        Prompt("Hi", system="{{ a }}").compose(a=PICTURE)


@attrs.frozen
class Order:
    """What somebody wants."""

    item: str
    number: int = 1


@dataclasses.dataclass
class PlainOrder:
    """The same in plain words."""

    item: str
    number: int = 1


SCHEMA = {
    "type": "object",
    "properties": {"item": {"type": "string"}, "number": {"type": "integer", "default": 1}},
    "required": ["item"],
}


@pytest.mark.parametrize("schema", [Order, PlainOrder, SCHEMA])
def test_values_are_held_to_a_schema(schema: object) -> None:
    """Classes and JSON Schemas alike say what values must be; everything wrong is told."""
    prompt = Prompt("{{ number|default(1) }} {{ item }}", schema=schema, name="order")  # type: ignore[arg-type]

    with pytest.raises(RequestError) as caught:
        prompt.render(number="two", itme="x")

    assert prompt.render(item="tea") == "1 tea"
    assert "'item' is missing; unknown variable 'itme' (did you mean 'item'?)" in str(caught.value)
    assert "number: " in str(caught.value)


def test_a_schema_gives_defaults() -> None:
    """What it says stands in for a value that is not given, required or not."""
    assert Prompt("{{ number }} {{ item }}", schema=SCHEMA).render(item="tea") == "1 tea"


def test_a_template_uses_what_its_schema_describes() -> None:
    """A variable that the schema does not know is a mistake in one of the two."""
    check_refused(
        "{{ itm }}",
        "p: The template uses 'itm', which the schema does not describe (did you mean 'item'?).",
        schema=SCHEMA,
    )


def test_a_schema_that_is_open_describes_everything() -> None:
    """With ``additionalProperties`` others may come."""
    prompt = Prompt("{{ other }}", schema={**SCHEMA, "additionalProperties": True})

    assert prompt.render(other="x", item="y") == "x"


def test_a_prompt_tells_what_it_is() -> None:
    """Its name and variables, as a debugger would show them."""
    assert repr(Prompt("{{ b }}{{ a }}", name="p")) == "Prompt('p', variables=['a', 'b'])"


def test_jinja_comes_in_with_the_first_prompt_only(tmp_path: Path) -> None:
    """To import the class takes none of its time."""
    program = (
        "import sys; from vibe_llms import Prompt; assert 'jinja2' not in sys.modules;"
        "Prompt('x'); assert 'jinja2' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=tmp_path)


def test_the_errors_are_ours() -> None:
    """Nobody has to know that there is a Jinja to catch what a prompt raises."""
    for text in ("{{", "{{ a.b.c }}", "{{ a|join }}"):
        with pytest.raises(ConverseError):
            Prompt(text).render(a=1)

"""What a template from a stranger tries, and does not get."""

from __future__ import annotations

import datetime
import itertools
import tracemalloc
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.exceptions import ConverseError, LimitError, RequestError
from vibe_llms.foundation.limits import Limits
from vibe_llms.instruments.prompts import Prompt

LIMITS = Limits(prompt_characters=100_000, prompt_seconds=0.2)  # type: ignore[arg-type]


@attrs.define
class Account:
    """Something that a program may well give to a prompt."""

    owner: str = "Ada"
    _secret: str = "hidden"
    closed: bool = False

    def close(self) -> str:
        """Does what cannot be undone."""
        self.closed = True
        return "closed"


@pytest.mark.parametrize(
    "text",
    [
        "{{ ''.__class__ }}",
        "{{ account.__class__.__init__.__globals__ }}",
        "{{ account['__class__'] }}",
        "{{ account._secret }}",
        "{{ [account]|map(attribute='__class__')|list }}",
        "{{ [account]|map(attribute='_secret')|join }}",
        "{{ [account]|sum('__class__') }}",
        "{{ [account]|groupby('__class__')|map('first')|map('string')|list }}",
        "{{ '{0.__class__}'.format(account) }}",
        "{{ '{a.__class__}'.format_map({'a': account}) }}",
        "{{ ['{0.__class__}']|map('format', account)|first ~ account.__class__ }}",
        "{{ account.close() }}",
        "{{ account.close }}",
        "{{ function() }}",
        "{{ function }}",
        "{{ function.__globals__ }}",
        "{{ function.__code__ }}",
        "{{ range.mro() }}",
        "{{ (range)(3).__class__ }}",
        "{{ self._TemplateReference__context }}",
        "{{ loop.__init__ }}",
        "{% for x in [1] %}{{ loop._iterable }}{% endfor %}",
        "{% macro m() %}{% endmacro %}{{ m._func }}",
        "{% macro m() %}{% endmacro %}{{ m }}",
        "{{ names.append(1) }}",
        "{{ table.update({'a': 1}) }}",
        "{% set names[0] = 1 %}",
        "{{ cycler.__init__.__globals__.os }}",
        "{{ lipsum(5) }}",
        "{{ names|attr('__class__') }}",
        "{{ names|pprint }}",
        "{{ path.unlink() }}",
        "{{ path.read_text() }}",
        "{{ bare }}",
    ],
)
def test_a_template_reaches_nothing_but_values(text: str, tmp_path: Path) -> None:
    """No class, private field, method that acts, or function is within its reach."""
    account, path = Account(), tmp_path / "kept"
    path.write_text("kept")
    given_values: dict[str, Any] = {
        "account": account,
        "function": check_bounded,
        "names": ["x"],
        "table": {},
        "path": path,
        "bare": object(),
    }

    def attempt() -> str:
        prompt = Prompt(text)
        return prompt.render(
            **{name: given_values[name] for name in prompt.variables & {*given_values}}
        )

    with pytest.raises(ConverseError):
        attempt()

    assert not account.closed
    assert path.exists()
    assert given_values["names"] == ["x"]
    assert given_values["table"] == {}


def check_bounded(text: str, **values: Any) -> None:
    """Asserts that a template is stopped before it makes much of anything."""
    prompt = Prompt(text, limits=LIMITS)
    tracemalloc.start()
    try:
        with pytest.raises((LimitError, RequestError)):
            prompt.render(**values)
        assert tracemalloc.get_traced_memory()[1] < 30_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "{% for i in range(10**9) %}{% endfor %}",
        "{{ range(10**9)|list }}",
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        "{% for i in range(99999) %}{% for j in range(99999) %}x{% endfor %}{% endfor %}",
        "{% set x %}{% for i in range(99999) %}" + "x" * 999 + "{% endfor %}{% endset %}",
        "{{ 'a' * 10**9 }}",
        "{{ 10**9 * 'a' }}",
        "{{ [1] * 10**9 }}",
        "{{ 10 ** (10 ** 9) }}",
        "{% set ns = namespace(x=9) %}{% for i in range(99) %}"
        "{% set ns.x = ns.x * ns.x %}{% endfor %}",
        "{% set ns = namespace(x='ab') %}{% for i in range(60) %}"
        "{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
        "{% set ns = namespace(x='ab') %}{% for i in range(60) %}"
        "{% set ns.x = ns.x + ns.x %}{% endfor %}",
        "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}"
        "{% set ns.x = ns.x + ns.x %}{% endfor %}",
        "{% set ns = namespace(x=[1]) %}{% for i in range(60) %}"
        "{% set ns.x = [ns.x, ns.x] %}{% endfor %}",
        "{% set ns = namespace(x={}) %}{% for i in range(60) %}"
        "{% set ns.x = {1: ns.x, 2: ns.x} %}{% endfor %}{{ ns.x }}",
        "{% set ns = namespace(x=(1,)) %}{% for i in range(60) %}"
        "{% set ns.x = dict(a=ns.x, b=ns.x) %}{% endfor %}{{ ns.x == ns.x }}",
        "{% set ns = namespace(x='ab') %}{% for i in range(60) %}"
        "{% set ns.x %}{{ ns.x }}{{ ns.x }}{% endset %}{% endfor %}",
        "{{ '%999999999d' % 1 }}",
        "{{ '%999999999d'|format(1) }}",
        "{{ '%.999999999f'|format(1) }}",
        "{{ '%*d'|format(999999999, 1) }}",
        "{{ '%(a)999999999s'|format(a='x') }}",
        "{{ '%(a(b))999999999s'|format(**{'a(b)': 'x'}) }}",
        "{{ day.strftime('%250Y' * 9000) }}",
        "{% set ns = namespace(x=[]) %}"
        "{% for i in range(99999) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }}",
        "{{ '{:>999999999}'.format(1) }}",
        "{{ 'a'.ljust(10**9) }}",
        "{{ 'a'.zfill(10**9) }}",
        "{{ 'a'.expandtabs(10**9) }}",
        "{{ 'a'.center(10**9) }}",
        "{{ 'a'|indent(10**9, true) }}",
        "{{ 'a'|indent(' ' * 10**9, true) }}",
        "{{ ('a\n' * 40000)|indent(999) }}",
        "{{ ('a' * 90000).replace('a', 'b' * 90000) }}",
        "{{ ('a' * 90000)|replace('', 'b' * 90000) }}",
        "{{ range(90000)|join('b' * 90000) }}",
        "{{ ('b' * 90000).join(range(90000)) }}",
        "{{ ('a ' * 40000)|wordwrap(1, true, 'b' * 90000) }}",
        "{{ [1]|batch(10**9, 'x')|list }}",
        "{{ [1]|slice(10**9)|list }}",
        "{{ 1.5|round(10**9, 'ceil') }}",
        "{{ [1]|tojson(indent=10**9) }}",
        "{{ ([[1] * 300] * 300)|sum(start=[]) }}",
        "{% macro m() %}{{ m() }}{{ m() }}{% endmacro %}{{ m() }}",
        "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}"
        "{{ m(60) }}",
        "{% macro m(n) %}xx{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}"
        "{% set x = m(60) %}",
        "{% set x = 'ab' * 40000 %}{% for i in range(99999) %}{{ x in x ~ i }}{% endfor %}",
    ],
)
def test_a_template_ends_soon_and_stays_small(text: str) -> None:
    """Loops in loops, doublings, widths and recursion stop at a limit, before memory is taken."""
    prompt = Prompt(text)
    values = {"day": datetime.date(2026, 1, 2)}

    check_bounded(text, **{name: values[name] for name in prompt.variables})


def test_inclusions_are_bounded_in_number_and_size() -> None:
    """Partials that include each other twice double with each step, and are not followed."""
    names = [f"p{number}" for number in range(40)]
    partials = {
        name: f"{{% include '{after}' %}}{{% include '{after}' %}}"
        for name, after in itertools.pairwise(names)
    }

    with pytest.raises(ConverseError, match="more than 200 times"):
        Prompt("{% include 'p0' %}", partials={**partials, names[-1]: "x"})
    with pytest.raises(LimitError, match="prompt_characters"):
        Prompt(
            "{% set x %}{% for i in range(99999) %}{% include 'long' %}{% endfor %}{% endset %}",
            partials={"long": "x" * 10_000},
            limits=LIMITS,
        ).render()


def test_a_large_value_is_refused_in_place_of_a_large_prompt() -> None:
    """The limit holds for what is given as well, also as the text of a list."""
    prompt = Prompt("{{ a }}", limits=LIMITS)

    assert len(prompt.render(a="x" * 100_000)) == 100_000
    for value in ("x" * 100_001, ["x"] * 500_000):
        with pytest.raises(LimitError, match=r"100_000 characters \(prompt_characters\)"):
            prompt.render(a=value)


def test_harmless_methods_can_be_called() -> None:
    """Those of texts, tables, lists, dates and loops that only tell something."""
    text = (
        "{{ name.upper() }} {{ name.replace('a', 'b') }} {{ ', '.join(table.keys()) }}"
        " {{ table.get('x', 0) }} {{ day.strftime('%Y') }} {{ names.count('a') }}"
        "{% for each in names %} {{ loop.cycle('odd', 'even') }}{% endfor %}"
    )

    rendered = Prompt(text).render(
        name="ada", table={"k": 1}, day=datetime.date(2026, 1, 2), names=["a", "b"]
    )

    assert rendered == "ADA bdb k 0 2026 1 odd even"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{{ [3, 1, 2]|sort|join(',') }}", "1,2,3"),
        ("{{ people|map(attribute='name')|join(' & ') }}", "Ada & Bob"),
        ("{{ people|join('/', attribute='name') }}", "Ada/Bob"),
        ("{{ people|selectattr('age', '>', 40)|list|length }}", "1"),
        ("{{ people|sum('age') }}", "80"),
        ("{% for age, group in people|groupby('age') %}{{ age }}{% endfor %}", "3050"),
        ("{{ [1, 2, 3]|batch(2)|list }}{{ [1, 2]|slice(2)|list }}", "[[1, 2], [3]][[1], [2]]"),
        ("{{ 'a b c'|wordcount }}{{ 'abc'|truncate(2, true, '…', 0) }}", "3a…"),
        ("{{ 'aa bb'|wordwrap(2) }}{{ 'a\nb'|indent(2) }}", "aa\nbba\n  b"),
        ("{{ '%.2f and %s'|format(1.234, 'x') }}{{ '%(n)d'|format(n=3) }}", "1.23 and x3"),
        (
            "{{ 2.567|round(1) }}{{ '7'|int + 1 }}{{ 7 % 4 }}{{ 2 ** 8 }}{{ 3 * 'ab' }}",
            "2.683256ababab",
        ),
        ("{{ {'a': [1]}|tojson(indent=1) }}", '{\n "a": [\n  1\n ]\n}'),
        ("{{ ['b', 'a']|unique|sort|first }}{{ 'ab'|reverse }}{{ 'A'|lower|title }}", "abaA"),
        ("{% for x in range(9) %}{% if x == 2 %}{% break %}{% endif %}{{ x }}{% endfor %}", "01"),
        ("{% for x in [1, 2] %}{{ loop.index }}/{{ loop.length }} {% endfor %}", "1/2 2/2 "),
        ("{% for k, v in {'a': 1}.items() %}{{ k }}{{ v }}{% endfor %}", "a1"),
        ("{% call(x) twice() %}<{{ x }}>{% endcall %}", None),
    ],
)
def test_the_language_is_otherwise_jinjas(text: str, expected: str | None) -> None:
    """What templates usually do they can do here."""
    if expected is None:
        macro = "{% macro twice() %}{{ caller(1) }}{{ caller(2) }}{% endmacro %}"
        assert Prompt(macro + text).render() == "<1><2>"
        return
    prompt = Prompt(text)
    people = [{"name": "Ada", "age": 50}, {"name": "Bob", "age": 30}]

    assert prompt.render(**dict.fromkeys(prompt.variables, people)) == expected


@given(st.text(alphabet="{}%#|abc.()[]'\"=~+*1 \n_", max_size=40))
def test_any_text_is_a_prompt_or_is_refused(text: str) -> None:
    """Nothing escapes but our own errors, and what renders renders to a text."""
    try:
        prompt = Prompt(text, limits=LIMITS)
        prompt.render(**dict.fromkeys(prompt.variables, "v"))
    except ConverseError:
        pass  # anything else fails the test

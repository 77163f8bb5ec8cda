"""Discovery and rendering agree on every template."""

from __future__ import annotations

import re

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy

from support.quality.properties import examples
from vibe_llms.exceptions import RequestError
from vibe_llms.instruments.prompts import Prompt

NAMES = ("a", "b", "c", "d")
PARTIALS = ("one", "two")


def produce_expressions(names: tuple[str, ...]) -> SearchStrategy[str]:
    """Makes expressions over variables, guarded and not."""
    name = st.sampled_from(names)
    text = "'{}'"
    leaf = st.one_of(
        name,
        name.map("{}|default('-')".format),
        st.tuples(name, name).map(lambda pair: "{}|d({})".format(*pair)),
        name.map("({} is defined)".format),
        st.just(text.format("x")),
    )
    return st.recursive(
        leaf,
        lambda inner: st.one_of(
            st.tuples(inner, st.sampled_from(["and", "or", "~"]), inner).map(
                lambda parts: "({} {} {})".format(*parts)
            ),
            inner.map("(not {})".format),
            st.tuples(inner, inner, inner).map(lambda parts: "({} if {} else {})".format(*parts)),
        ),
        max_leaves=3,
    )


@st.composite
def produce_bodies(
    draw: DrawFn,
    names: tuple[str, ...] = NAMES,
    partials: tuple[str, ...] = PARTIALS,
    depth: int = 2,
) -> str:
    """Makes templates: prints, decisions, loops, settings, macros and inclusions."""
    pieces = []
    fresh = f"s{depth}"
    inner = produce_bodies(names, partials, depth - 1) if depth else st.just("-")
    for _ in range(draw(st.integers(1, 2))):
        expression = draw(produce_expressions(names))
        match draw(st.sampled_from(["print", "if", "for", "set", "macro", "include"])):
            case "print":
                pieces.append(f"{{{{ {expression} }}}}")
            case "if":
                pieces.append(
                    f"{{% if {expression} %}}{draw(inner)}{{% else %}}{draw(inner)}{{% endif %}}"
                )
            case "for":
                target = draw(st.sampled_from((*names, fresh)))
                within = produce_bodies((*names, target), partials, depth - 1) if depth else inner
                pieces.append(
                    f"{{% for {target} in [1, {expression}] %}}{draw(within)}{{% endfor %}}"
                )
            case "set":
                pieces.append(f"{{% set {fresh} = {expression} %}}{{{{ {fresh} }}}}")
            case "macro":
                pieces.append(
                    f"{{% macro m{fresh}({fresh}={expression}) %}}{draw(inner)}{{% endmacro %}}"
                )
                pieces.append(f"{{{{ m{fresh}() }}}}")
            case "include":
                if partials:
                    pieces.append(f"{{% include '{draw(st.sampled_from(partials))}' %}}")
    return "".join(pieces)


@attrs.frozen
class Example:
    """A template with its partials."""

    text: str
    partials: dict[str, str]


@st.composite
def produce_examples(draw: DrawFn) -> Example:
    """Makes a template whose first partial may include the second."""
    partials = {
        "one": draw(produce_bodies(partials=("two",), depth=1)),
        "two": draw(produce_bodies(partials=(), depth=1)),
    }
    return Example(draw(produce_bodies()), partials)


@pytest.mark.slow
@examples(40)
@given(produce_examples(), st.data())
def test_discovery_and_rendering_agree(example: Example, data: st.DataObject) -> None:
    """What is required suffices, whatever else is given; any of it left out is told by name."""
    prompt = Prompt(example.text, partials=example.partials)
    optional = sorted(prompt.variables - prompt.required)
    extra = data.draw(st.sets(st.sampled_from(optional)) if optional else st.just(set()))

    prompt.render(**dict.fromkeys(prompt.required | extra, "v"))

    assert prompt.required <= prompt.variables
    assert prompt.variables <= {*re.findall(r"\w+", f"{example}")} & {*NAMES, "s0", "s1", "s2"}
    for name in prompt.required:
        with pytest.raises(RequestError, match=f"'{name}' is missing") as caught:
            prompt.render(**dict.fromkeys(prompt.required - {name}, "v"))
        assert str(caught.value).count("is missing") == 1

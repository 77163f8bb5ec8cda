"""What stands in double braces is found with its place, and replaced once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.exceptions import RequestError
from vibe_llms.flows.interpolation import TemplateScope, read_template, render_template

SCOPE = TemplateScope(
    variables={"topic": "cells", "count": 3, "tags": ["a", "ü"]},
    registry={"docs": {"source_url": "https://example.org", "category": "reference"}},
    responses={"P0": "{{topic}} and {{response:P0}}", "review-1": "Fine."},
    loop=(1, 4),
)


@pytest.mark.parametrize(
    ("text", "rendered"),
    [
        ("About {{topic}}.", "About cells."),
        ("{{ topic }}{{count}}{{tags}}", 'cells3["a", "ü"]'),
        ("{{registry:docs}} ({{registry:docs.category}})", "https://example.org (reference)"),
        ("{{response:review-1}}", "Fine."),
        ("{{loop.index}} of {{loop.count}}", "1 of 4"),
        (r"\{{topic}} is written so, {topic} not", "{{topic}} is written so, {topic} not"),
        ("", ""),
    ],
)
def test_references_are_replaced(text: str, rendered: str) -> None:
    """By what they mean; all else stays as it is."""
    assert render_template(read_template(text), SCOPE) == rendered


def test_what_a_model_said_is_no_template() -> None:
    """Braces in it are only text, however they look."""
    assert render_template(read_template("{{response:P0}}!"), SCOPE) == (
        "{{topic}} and {{response:P0}}!"
    )


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("a\n b {{topik}}", "template:2:4", "Unknown variable 'topik'; did you mean 'topic'?"),
        ("{{registry:doc}}", "template:1:1", "Unknown entry of the registry 'doc'; did you mean"),
        ("{{registry:docs.kategory}}", "template:1:1", "has no field 'kategory'; did you mean"),
        ("{{response:P9}}", "template:1:1", "Unknown response of a node 'P9'"),
        (
            "x {{loop.indx}}",
            "template:1:3",
            "Unknown field 'indx' of a loop; did you mean 'index'?",
        ),
        ("x {{response:P0.text}}", "template:1:3", "A response has no fields"),
        ("x {{topic\n}}", "template:1:3", "not closed on the same line"),
        ("{{1 + 1}}", "template:1:1", "Unknown placeholder '1 + 1'"),
        ("{{topic.__class__}}", "template:1:1", "Unknown placeholder"),
        ("{{}}", "template:1:1", "Unknown placeholder"),
    ],
)
def test_what_means_nothing_is_refused_with_its_place(text: str, place: str, words: str) -> None:
    """And with the nearest right word."""
    with pytest.raises(RequestError) as caught:
        render_template(read_template(text), SCOPE)
    assert caught.value.path == place
    assert words in caught.value.detail


def test_a_loop_means_nothing_outside_of_one() -> None:
    """Rather than 0 of 0."""
    with pytest.raises(RequestError, match="only available inside a loop"):
        render_template(read_template("{{loop.index}}"), TemplateScope())


TEXTS = st.text("ab \n.:{}é", max_size=8).filter(
    lambda text: "{{" not in text and not text.endswith("{")
)


@given(st.lists(st.tuples(TEXTS, st.sampled_from(["topic", "response:P0", "loop.count"]))), TEXTS)
def test_texts_and_references_come_back_in_their_places(
    pieces: list[tuple[str, str]], end: str
) -> None:
    """Whatever stands between them."""
    written = "".join(f"{text}{{{{{name}}}}}" for text, name in pieces) + end
    template = read_template(written)

    assert template.faults == ()
    assert [str(each) for each in template.references] == [f"{{{{{name}}}}}" for _, name in pieces]
    lines = written.split("\n")
    for each in template.references:
        assert lines[each.line - 1][each.column - 1 :].startswith(str(each))
    expected = {"topic": "cells", "response:P0": SCOPE.responses["P0"], "loop.count": "4"}
    assert render_template(template, SCOPE) == (
        "".join(text + expected[name] for text, name in pieces) + end
    )


@given(st.text(r"{}\:. " + "\ntopicregistryresponseloop"))
def test_any_text_is_read(text: str) -> None:
    """It has faults or renders, or names something that is not known; nothing else happens."""
    template = read_template(text)
    try:
        rendered = render_template(template, SCOPE)
    except RequestError:
        assert template.faults or template.references
    else:
        assert template.references or rendered == text.replace("\\{{", "{{")

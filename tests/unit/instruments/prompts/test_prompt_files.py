"""Prompts in files, and their partials."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from vibe_llms.exceptions import ConfigurationError
from vibe_llms.instruments.prompts import Prompt
from vibe_llms.instruments.prompts.partials import MAXIMUM_BYTES


def write_files(folder: Path, **texts: str) -> Path:
    """Writes files into a folder; ``main`` is the prompt."""
    for name, text in texts.items():
        path = folder / f"{name.replace('__', '/')}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return folder / "main.md"


def check_refused(path: Path, words: str) -> None:
    """Asserts that a prompt is refused for this reason."""
    with pytest.raises(ConfigurationError) as caught:
        Prompt.read(path)

    assert words in str(caught.value)
    said, _, _ = str(caught.value).partition(" Convert it")
    assert said.count(path.name) == 1


def test_a_prompt_is_read_with_its_partials(tmp_path: Path) -> None:
    """Files beside it and below can be included, and see what the place of inclusion sees."""
    path = write_files(
        tmp_path,
        main="{% for item in items %}{% include 'parts/row.md' %}\n{% endfor %}\n",
        parts__row="- {{ item }}{% include 'end.md' %}",
        end="{{ mark }}",
        role="You are {{ who }}.",
    )

    prompt = Prompt.read(path, system="{% include 'role.md' %}")

    assert prompt.name == "main"
    assert prompt.required == {"items", "mark", "who"}
    assert prompt.render(items=[1, 2], mark="!", who="x") == "- 1!\n- 2!\n"


def test_what_was_checked_is_what_is_rendered(tmp_path: Path) -> None:
    """A file that changes later changes nothing: everything was read when the prompt was made."""
    path = write_files(tmp_path, main="{% include 'part.md' %}", part="before")
    prompt = Prompt.read(path)

    write_files(tmp_path, part="after")

    assert prompt.render() == "before"


def test_macros_are_imported_from_partials() -> None:
    """They get what they need as arguments."""
    prompt = Prompt(
        "{% from 'm' import show %}{% import 'm' as m %}{{ show(a) }}{{ m.show(2) }}",
        partials={"m": "{% macro show(x, y='!') %}<{{ x }}{{ y }}>{% endmacro %}"},
    )

    assert prompt.variables == {"a"}
    assert prompt.render(a=1) == "<1!><2!>"


@pytest.mark.parametrize(
    ("text", "partial", "words"),
    [
        ("{% import 'm' as m with context %}", "", "imported without context"),
        ("{% import 'm' as m %}", "{% macro f() %}{{ a }}{% endmacro %}", "The partial uses 'a'"),
        ("{% include 'm' without context %}", "{{ a }}", "The partial uses 'a'"),
        ("{% include 'm' %}", "{% include 'm' %}", "The partial includes itself: m → m."),
        ("{% include 'm' %}", "\n{{ x|uper }}", "m:2:6: Unknown filter 'uper'"),
        ("{% include 'macro' %}", "", "Unknown partial 'macro'; did you mean 'macros'?"),
        ("{% include ['x', 'y'] %}", "", "Unknown partial 'x'"),
    ],
)
def test_partials_that_do_not_hold_are_refused(text: str, partial: str, words: str) -> None:
    """The finding stands where the mistake does."""
    with pytest.raises(ConfigurationError) as caught:
        Prompt(text, partials={"m": partial, "macros": ""})

    assert words in str(caught.value)


def test_a_partial_may_be_missing_where_the_template_says_so() -> None:
    """The first that exists is included, and with ``ignore missing`` perhaps none."""
    partials = {"b": "B", "c": "C"}

    prompt = Prompt(
        "{% include ['a', 'b', 'c'] %}{% include 'z' ignore missing %}", partials=partials
    )

    assert prompt.render() == "B"


@pytest.mark.parametrize(
    "name",
    [
        "../outside.md",
        "/etc/passwd",
        "parts/../../outside.md",
        "..",
        "",
        ".",
        "a\\b.md",
        "link.md",
        "folder/x.md",
    ],
)
def test_no_partial_leads_out_of_the_directory(tmp_path: Path, name: str) -> None:
    """Neither a name nor a symbolic link, of a file or of a folder, does."""
    inside = tmp_path / "inside"
    path = write_files(inside, main=f"{{% include '{name}' %}}")
    write_files(tmp_path, outside="secret", elsewhere__x="secret")
    (inside / "link.md").symlink_to(tmp_path / "outside.md")
    (inside / "folder").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(ConfigurationError) as caught:
        Prompt.read(path)

    assert "secret" not in str(caught.value)
    assert "main.md:1:4: " in str(caught.value)


def test_links_within_the_directory_are_followed(tmp_path: Path) -> None:
    """They lead nowhere else."""
    path = write_files(tmp_path, main="{% include 'link.md' %}", target="here")
    (tmp_path / "link.md").symlink_to(tmp_path / "target.md")

    assert Prompt.read(path).render() == "here"


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    """Missing, too long, not UTF-8, or no file at all: each is said of the file."""
    check_refused(tmp_path / "none.md", "No such file")
    check_refused(write_files(tmp_path, main="x" * (MAXIMUM_BYTES + 1)), "larger than 1,000,000")
    (tmp_path / "main.md").write_bytes(b"\xff")
    check_refused(
        tmp_path / "main.md", "not in UTF-8 (byte 0xFF in line 1). Convert it first: iconv"
    )
    os.mkfifo(tmp_path / "pipe")
    check_refused(write_files(tmp_path, main="{% include 'pipe' %}"), "Unknown partial 'pipe'")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    check_refused(write_files(tmp_path, main="{% include 'loop' %}"), "Unknown partial 'loop'")


def test_a_missing_partial_is_named_with_the_nearest_file(tmp_path: Path) -> None:
    """What lies in the directory is what could have been meant."""
    path = write_files(tmp_path, main="{% include 'rulse.md' %}", rules="")

    check_refused(path, "did you mean 'rules.md'?")


def test_a_prompt_given_in_the_text_reads_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only what was given by name can be included."""
    write_files(tmp_path, part="secret")
    monkeypatch.chdir(tmp_path)

    with pytest.raises(ConfigurationError, match=r"Unknown partial 'part\.md'"):
        Prompt("{% include 'part.md' %}")

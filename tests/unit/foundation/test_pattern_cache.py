"""Regular expressions of modules are kept from one process to the next."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.foundation.pattern_cache import PatternCache

PATTERNS: list[tuple[str | bytes, int]] = [
    (r"(?P<year>\d{4})-(?P<month>\d\d)(?:-(\d\d))?", 0),
    (r"^\s*\[(?P<name>[a-zé]+)\]$", re.MULTILINE | re.IGNORECASE),
    ("[\u034f\u115f\U00016fe4]|(?<!a)b(?=c)", 0),
    (rb"\x89PNG|(\xff+)", re.DOTALL),
    (
        r"""(?x) (a+) # first
        (?(1) b | c)""",
        0,
    ),
]
TEXTS: list[str] = ["2026-11-29", " [NAMÉ]\n", "abc bc \u034f", "aab", "c", ""]


def _compile_in_module(cache: PatternCache, pattern: Any, flags: int = 0) -> Any:
    """Calls the cache as the code of a module does."""
    held = {"compile_": cache, "pattern": pattern, "flags": flags}
    exec("compiled = compile_(pattern, flags)", held)
    return held["compiled"]


@pytest.mark.parametrize(("pattern", "flags"), PATTERNS)
def test_a_kept_expression_is_the_same(tmp_path: Path, pattern: Any, flags: int) -> None:
    path = str(tmp_path / "patterns")
    first = PatternCache(path)
    made = _compile_in_module(first, pattern, flags)
    first.write()
    kept = _compile_in_module(PatternCache(path), pattern, flags)
    real = re.compile(pattern, flags)

    assert made == kept == real
    assert (kept.flags, kept.groups, kept.groupindex) == (real.flags, real.groups, real.groupindex)
    for text in TEXTS:
        subject = text.encode() if isinstance(pattern, bytes) else text
        assert _survey(kept.finditer, subject) == _survey(real.finditer, subject)


def _survey(find: Callable[[Any], Any], subject: Any) -> list[Any]:
    return [(match.span(), match.groups(), match.lastgroup) for match in find(subject)]


@given(
    pattern=st.from_regex(r"[ab]{0,2}[+*?]?\|?\(?[cd.]?\)?[$^]?", fullmatch=True),
    text=st.text("abcd", max_size=6),
)
def test_a_kept_expression_matches_the_same(
    tmp_path_factory: pytest.TempPathFactory, pattern: str, text: str
) -> None:
    try:
        real = re.compile(pattern)
    except re.error:
        return
    cache = PatternCache(str(tmp_path_factory.getbasetemp() / "absent"))
    values = cache._translate(pattern, 0)

    assert _survey(re._compiler._sre.compile(pattern, *values).finditer, text) == _survey(  # type: ignore[attr-defined]
        real.finditer, text
    )


def test_only_new_expressions_are_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "patterns")
    first = PatternCache(path)
    _compile_in_module(first, "a+")
    first.write()
    second = PatternCache(path)
    compiled: list[object] = []
    translate = PatternCache._translate

    def count(self: PatternCache, pattern: Any, flags: int) -> Any:
        compiled.append(pattern)
        return translate(self, pattern, flags)

    monkeypatch.setattr(PatternCache, "_translate", count)
    for pattern in ("a+", "b+"):
        _compile_in_module(second, pattern)

    assert compiled == ["b+"]


def test_the_text_of_a_user_is_not_kept(tmp_path: Path) -> None:
    """A function may have made the expression of it."""
    path = tmp_path / "patterns"
    cache = PatternCache(str(path))

    assert cache("secret-[0-9]+").fullmatch("secret-1")

    cache.write()
    assert len(PatternCache(str(path))) == 0


def test_an_invalid_expression_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(re.error, match="unterminated"):
        _compile_in_module(PatternCache(str(tmp_path / "patterns")), "(a")

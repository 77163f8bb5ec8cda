"""Functions that a worker is told by the names of their modules."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from vibe_llms.batches.functions import load_functions
from vibe_llms.exceptions import ConfigurationError

MODULE = """
async def invert(number):
    return 1 / number

async def clean(text):
    return text.strip()

other = invert
number = 3
"""


@pytest.fixture(autouse=True)
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "billing").mkdir()
    (tmp_path / "billing" / "rates.py").write_text(MODULE)
    (tmp_path / "ending.py").write_text("raise SystemExit(0)")
    (tmp_path / "wanting.py").write_text("import nowhere_at_all")
    (tmp_path / "broken.py").write_text("x = 1 +")
    monkeypatch.syspath_prepend(tmp_path)
    return iter(())


def test_they_are_imported_in_the_order_of_their_names() -> None:
    found = load_functions("billing.rates:clean, billing.rates:invert,")
    assert [each.__name__ for each in found] == ["clean", "invert"]
    assert load_functions("") == []


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ("invert", "Invalid function 'invert': write MODULE:NAME."),
        ("billing.rates:", ": write MODULE:NAME."),
        (":invert", ": write MODULE:NAME."),
        ("billing..rates:invert", ": write MODULE:NAME."),
        ("./rates.py:invert", ": write MODULE:NAME."),
        ("absent:invert", "cannot import absent, ModuleNotFoundError: No module named"
         " 'absent'; install it, or add its folder to PYTHONPATH."),
        ("billing.absent:invert", "install it, or add its folder to PYTHONPATH."),
        ("wanting:invert", "No module named 'nowhere_at_all'; fix it."),
        ("broken:invert", "cannot import broken, SyntaxError: "),
        ("ending:invert", "cannot import ending, SystemExit: 0"),
        ("billing.rates:absent", "absent of billing.rates is missing."),
        ("billing.rates:number", "number of billing.rates is not a function."),
        ("billing.rates:other", "defined under another name; use that name."),
    ],
)  # fmt: skip
def test_what_is_none_is_refused_in_one_line(told: str, words: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load_functions(f"billing.rates:clean,{told}")
    (finding,) = caught.value.findings
    assert finding.place == "functions"
    assert words in finding.message
    assert "\n" not in finding.message

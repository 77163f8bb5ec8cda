"""A file with very many mistakes is refused with work of its size."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from support.quality.working import measure
from vibe_llms.configuration.sources import load_configuration
from vibe_llms.exceptions import ConfigurationError
from vibe_llms.tables.reading import FINDINGS_LIMIT

SHAPES: dict[str, Callable[[int], str]] = {
    "settings": lambda n: "\n".join(f"key{i} = {i}" for i in range(n)),
    "settings of a table": lambda n: "[limits]\n" + "\n".join(f"key{i} = {i}" for i in range(n)),
    "tables": lambda n: "\n".join(f"[table{i}]\na = 1" for i in range(n)),
    "values": lambda n: "[aliases]\n" + "\n".join(f"a{i} = 3" for i in range(n)),
}


def load(folder: Path, text: str) -> ConfigurationError:
    """Load a configuration that is refused."""
    path = folder / "vibe.toml"
    path.write_text(text, encoding="utf-8")
    environment = {"HOME": str(folder), "VIBE_LLMS_CONFIG": str(path)}
    with pytest.raises(ConfigurationError) as caught:
        load_configuration(environment=environment, working_directory=folder)
    return caught.value


@pytest.mark.parametrize("shape", SHAPES)
def test_the_first_are_told_and_that_there_may_be_more(tmp_path: Path, shape: str) -> None:
    """Each with its line."""
    error = load(tmp_path, SHAPES[shape](3 * FINDINGS_LIMIT))

    *first, last = error.findings
    assert len(first) == FINDINGS_LIMIT
    assert all(each.line for each in first)
    assert last.message == "Only the first 100 mistakes are listed."


def test_as_many_as_are_told_are_all_there_are(tmp_path: Path) -> None:
    """Nothing is said of more."""
    error = load(tmp_path, SHAPES["settings"](FINDINGS_LIMIT - 1))

    assert len(error.findings) == FINDINGS_LIMIT - 1
    assert all("Unknown setting" in each.message for each in error.findings)


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_a_file_of_mistakes_costs_what_it_takes_to_read_it(tmp_path: Path, shape: str) -> None:
    """To look for what was meant by each of 80,000 took 39 seconds."""

    def produce(count: int) -> Callable[[], object]:
        return lambda: load(tmp_path, SHAPES[shape](count))

    few, many = (measure(produce(count))[0] for count in (300, 900))

    assert many - few <= 600 * 300

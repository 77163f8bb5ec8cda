"""The examples of tasks that ship: to run as they are, and to begin from."""

from __future__ import annotations

from pathlib import Path

from vibe_llms.exceptions import UnknownNameError
from vibe_llms.flows.reading import read_task
from vibe_llms.resources import access_data
from vibe_llms.values import frozen

FIRST = "simple_qa_task"
"""The one to begin from where nothing else is said."""


@frozen(kw_only=True)
class Example:
    """A task that ships.

    Attributes:
        name: By which it is chosen: that of its file, without the ending.
        path: The file.
    """

    name: str
    path: Path

    @property
    def summary(self) -> str:
        """What it is for: its goal."""
        return read_task(self.path).goal.description


def survey_examples() -> tuple[Example, ...]:
    """Returns the examples, the one to begin from first."""
    files = (each for each in access_data("tasks").iterdir() if each.suffix in (".json", ".toml"))
    found = [Example(name=each.stem, path=each) for each in sorted(files)]
    return tuple(sorted(found, key=lambda each: each.name != FIRST))


def access_example(name: str = FIRST) -> Example:
    """Returns the example of a name.

    Raises:
        UnknownNameError: There is none.
    """
    examples = {each.name: each for each in survey_examples()}
    if name not in examples:
        raise UnknownNameError(kind="example", name=name, known=tuple(examples))
    return examples[name]

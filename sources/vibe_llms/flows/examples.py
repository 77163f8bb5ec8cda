"""The examples of tasks that ship: to run as they are, and to begin from."""

from __future__ import annotations

import json
from pathlib import Path

from vibe_llms.exceptions import UnknownNameError
from vibe_llms.flows.reading import access_document, read_task
from vibe_llms.flows.subflows import SUFFIXES
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.package_data import access_data

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

    def write(self, suffix: str) -> bytes:
        """Return the task in the form of a suffix; as it ships, where it ships in that form.

        In the other form its comments are left out, which JSON cannot hold.

        Raises:
            UnknownNameError: Tasks have no such form.
        """
        if suffix == self.path.suffix:
            return self.path.read_bytes()
        tree = access_document(self.path).tree
        match suffix:
            case ".json":
                return f"{json.dumps(tree, indent=2, ensure_ascii=False)}\n".encode()
            case ".toml":
                import tomli_w

                return tomli_w.dumps(tree, multiline_strings=True).encode()
        raise UnknownNameError(kind="form of tasks", name=suffix, known=SUFFIXES)


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

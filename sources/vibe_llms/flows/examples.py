"""Example tasks that ship with the package: to run unchanged, and to start from."""

from __future__ import annotations

import json
from pathlib import Path

from vibe_llms.exceptions import UnknownNameError
from vibe_llms.flows.subflows import SUFFIXES
from vibe_llms.flows.task_reading import access_document, read_task
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.package_data import access_data

FIRST = "simple_qa_task"
"""Default example."""


@frozen(kw_only=True)
class Example:
    """Example task.

    Attributes:
        name: Name of the example: the name of the file, without the suffix.
        path: The file.
    """

    name: str
    path: Path

    @property
    def summary(self) -> str:
        """Goal of the task."""
        return read_task(self.path).goal.description

    def write(self, suffix: str) -> bytes:
        """Return the task in the format of a suffix; unchanged if it ships in that format.

        In the other format, its comments are omitted, because JSON has no comments.

        Raises:
            UnknownNameError: Tasks have no such format.
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
        raise UnknownNameError(kind="task format", name=suffix, known=SUFFIXES)


def survey_examples() -> tuple[Example, ...]:
    """Return the examples, the default one first."""
    files = (each for each in access_data("tasks").iterdir() if each.suffix in (".json", ".toml"))
    found = [Example(name=each.stem, path=each) for each in sorted(files)]
    return tuple(sorted(found, key=lambda each: each.name != FIRST))


def access_example(name: str = FIRST) -> Example:
    """Return the example with a name.

    Raises:
        UnknownNameError: No example has this name.
    """
    examples = {each.name: each for each in survey_examples()}
    if name not in examples:
        raise UnknownNameError(kind="example", name=name, known=tuple(examples))
    return examples[name]

"""The memory tool that Anthropic defines, served by notes.

Its files are the notes: ``/memories/tea.md`` is the note ``tea.md``. Front matter is not shown, so
that lines are numbered as the model wrote them. Source of the commands: anthropic 2.14.0,
``types/beta/beta_memory_tool_20250818_command.py``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from vibe_llms.exceptions import StoreError
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.memory.books import NoteBook
from vibe_llms.memory.notes import Note, NoteOrigin

_ROOT: Final = "/memories"
_NUMBER_WIDTH: Final = 6
_CONTEXT_LINES: Final = 2


@frozen
class MemoryCommands:
    """Commands of the memory tool on the notes of one user. All methods block.

    Each raises a StoreError, in words for the model, if it cannot be performed.

    Attributes:
        book: The notes.
        origin: The conversation that calls.
    """

    book: NoteBook
    origin: NoteOrigin | None = None

    def view(self, path: str, view_range: Sequence[int] | None = None) -> str:
        """Return a note with numbered lines, or list the notes in a folder."""
        name = _strip(path)
        if self._is_folder(name):
            notes = self.book.list(name)
            lines = [f"{len(note.text.encode())} bytes\t{_show(note.path)}" for note in notes]
            return "\n".join([f"Notes below {_show(name)}: {len(notes)}.", *lines])
        note = self.book.read(name)
        lines = note.text.split("\n")
        first, last = _read_range(view_range, len(lines))
        return f"{_show(note.path)}:\n{_number(lines, first, last)}"

    def create(self, path: str, file_text: str) -> str:
        """Create a note."""
        note = self.book.create(_strip(path), file_text, self.origin)
        return f"{_show(note.path)} was created."

    def str_replace(self, path: str, old_str: str, new_str: str) -> str:
        """Replace a text that occurs once."""
        name, start = _strip(path), 0

        def replace(old: str | None) -> str:
            nonlocal start
            text = _ensure_text(name, old)
            count = text.count(old_str) if old_str else 0
            if count != 1:
                detail = f"old_str occurs {count} times in {_show(name)}, not once."
                raise _refuse(f"Nothing was replaced: {detail}", "Give a text that occurs once.")
            start = text.index(old_str)
            return text.replace(old_str, new_str)

        note = self.book.change(name, replace, self.origin)
        return self._describe_edit(note, note.text.count("\n", 0, start) + 1)

    def insert(self, path: str, insert_line: int, insert_text: str) -> str:
        """Insert lines after a line; 0 inserts at the beginning."""
        name = _strip(path)

        def insert(old: str | None) -> str:
            lines = _ensure_text(name, old).removesuffix("\n").split("\n")
            lines = [] if lines == [""] else lines
            if not 0 <= insert_line <= len(lines):
                detail = f"insert_line is {insert_line}; it must be from 0 to {len(lines)}."
                raise _refuse(detail, "View the note first.")
            lines.insert(insert_line, insert_text.removesuffix("\n"))
            return "\n".join(lines) + "\n"

        note = self.book.change(name, insert, self.origin)
        return self._describe_edit(note, insert_line + 1)

    def delete(self, path: str) -> str:
        """Delete a note, or all notes in a folder."""
        count = self.book.delete(_strip(path))
        return f"{_show(_strip(path))} was deleted: {count} note{'s' if count != 1 else ''}."

    def rename(self, old_path: str, new_path: str) -> str:
        """Move a note or a folder."""
        self.book.move(_strip(old_path), _strip(new_path))
        return f"{_show(_strip(old_path))} was renamed to {_show(_strip(new_path))}."

    def _is_folder(self, name: str) -> bool:
        return self.book.paths.is_scope(name) or bool(self.book.survey(name))

    def _describe_edit(self, note: Note, line: int) -> str:
        lines = note.text.split("\n")
        shown = _number(lines, line - _CONTEXT_LINES, line + _CONTEXT_LINES)
        return f"{_show(note.path)} was edited:\n{shown}"


def _strip(path: str) -> str:
    """Return the path of a note in its book; an absolute path must begin with ``/memories``."""
    first, _, rest = path.strip().lstrip("/").partition("/")
    if first == _ROOT[1:]:
        return rest
    if path.strip().startswith("/"):
        raise _refuse(f"{path!r} is not below {_ROOT}.", f"Use {_ROOT}/NAME.md.")
    return path


def _show(name: str) -> str:
    return f"{_ROOT}/{name}" if name else _ROOT


def _ensure_text(name: str, text: str | None) -> str:
    if text is None:
        raise _refuse(f"{_show(name)} does not exist.", "View /memories first.")
    return text


def _read_range(view_range: Sequence[int] | None, count: int) -> tuple[int, int]:
    if not view_range:
        return 1, count
    if len(view_range) != 2 or view_range[0] < 1 or view_range[1] < -1:
        raise _refuse(f"Invalid view_range {[*view_range]}.", "Give the first and the last line.")
    first, last = view_range
    return first, count if last == -1 else last


def _number(lines: Sequence[str], first: int, last: int) -> str:
    """Return the lines from the first to the last, each with its number."""
    first = max(1, first)
    chosen = enumerate(lines[first - 1 : max(0, last)], first)
    return "\n".join(f"{number:{_NUMBER_WIDTH}}\t{line}" for number, line in chosen)


def _refuse(detail: str, remedy: str) -> StoreError:
    return StoreError(detail=detail, remedy=remedy)

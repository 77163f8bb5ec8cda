"""Memory: notes of models and users that outlive conversations.

A note is a Markdown file in the store; a :class:`NoteBook` has the notes of one user, those of one
project among them. The ensemble ``memory`` offers them to models, and ``vibe memory`` to people.
May import retrieval and everything below; it must not know flows or the command line.
"""

from __future__ import annotations

from vibe_llms.foundation.lazy_imports import produce_attribute_access

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vibe_llms.memory.books import NoteBook
    from vibe_llms.memory.notes import Note, NoteOrigin
    from vibe_llms.memory.searching import NoteHit

__all__ = ["Note", "NoteBook", "NoteHit", "NoteOrigin"]

__getattr__, __dir__ = produce_attribute_access(
    __name__,
    {
        "Note": "notes",
        "NoteBook": "books",
        "NoteHit": "searching",
        "NoteOrigin": "notes",
    },
)

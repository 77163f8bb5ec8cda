"""Ensemble of files: read, write, edit, list and search, within the user's grants."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import attrs

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.invocables.contexts import InvocationContext
from vibe_llms.invocables.deduplicators import ByArgument
from vibe_llms.invocables.invokers import Effect, Invoker, produce_invoker
from vibe_llms.invocables.refusals import Refusal, explain_refusals
from vibe_llms.invocables.shipped.granted import GrantedEnsemble
from vibe_llms.invocables.shipped.io.directory_listing import list_directory
from vibe_llms.invocables.shipped.io.editing import replace_once
from vibe_llms.invocables.shipped.io.file_lines import read_lines
from vibe_llms.invocables.shipped.io.file_search import search
from vibe_llms.invocables.shipped.io.file_writing import encode, ensure_writable, replace_file
from vibe_llms.invocables.shipped.io.settings import IoSettings
from vibe_llms.invocables.shipped.opening import open_file, read_whole

_RANGE = ("first_line", "lines")


@frozen
class ByFile:
    """A result about a whole file supersedes earlier results about that file.

    A part of a file is a separate subject, so that one part does not supersede another.
    """

    def identify(self, name: str, arguments: JsonObject) -> str | None:
        """Return the path of the file, with the range of lines if only a part was read."""
        path = arguments.get("path")
        if not isinstance(path, str):
            return None
        parts = [part for part in path.split("/") if part not in ("", ".")]
        # "./a//b" and "a/b" are one file. Links and ".." stay, because this function does not open
        # the file.
        root = "/" if path.startswith("/") else ""
        normalized = {**arguments, "path": root + "/".join(parts)}
        file = ByArgument("path", "file").identify(name, normalized)
        line_range = {key: arguments[key] for key in _RANGE if key in arguments}
        return f"{file}:{sorted(line_range.items())}" if line_range else file


TIME_LIMIT_SECONDS: Final = 30.0
CONCURRENCY: Final = 8
_LOCK_SECONDS: Final = 20.0


class IoEnsemble(GrantedEnsemble):
    """Files for a model.

    Args:
        settings: The granted directories.

    Raises:
        ConfigurationError: The grants are invalid.
    """

    settings_class = IoSettings

    def __init__(self, settings: IoSettings) -> None:
        super().__init__(settings.name, settings.produce_grants())
        self.settings = settings
        self._write_lock = threading.Lock()

    async def survey(self) -> Sequence[Invoker]:
        """Return the five invokers."""
        shared = {"time_limit_seconds": TIME_LIMIT_SECONDS, "concurrency": CONCURRENCY}
        reading = {**shared, "effect": Effect.PURE}
        writing = {**shared, "needs_approval": True}
        return (
            self._produce(self.read_file, deduplicator=ByFile(), **reading),
            self._produce(self.list_files, **reading),
            self._produce(self.search_files, **reading),
            self._produce(
                self.write_file, effect=Effect.IDEMPOTENT, deduplicator=ByFile(), **writing
            ),
            # Not idempotent: if the new text contains the old one, a second call would edit again.
            self._produce(self.edit_file, effect=Effect.ONCE, **writing),
        )

    def _produce(self, function: Callable[..., Any], **options: Any) -> Invoker:
        invoker = produce_invoker(explain_refusals(function), **options)
        description = f"{invoker.description} Accessible: {self._grants.describe()}."
        return attrs.evolve(invoker, description=description)

    def read_file(
        self, path: str, context: InvocationContext, first_line: int = 1, lines: int = 2_000
    ) -> str:
        """Read a text file, or some lines of it.

        Args:
            path: The file; relative to the first accessible directory, or absolute.
            first_line: The first line to return, counted from 1.
            lines: The maximum number of lines to return.
        """
        with self._grants.walk(path) as target:
            return read_lines(target, first_line, lines, context)

    def list_files(self, context: InvocationContext, path: str = ".", depth: int = 1) -> str:
        """List the content of a directory, with sizes in bytes. Links are shown, not followed.

        Args:
            path: The directory.
            depth: The number of directory levels to list.
        """
        with self._grants.walk(path) as target:
            return list_directory(target, depth, context)

    def search_files(
        self,
        context: InvocationContext,
        text: str = "",
        name: str = "*",
        path: str = ".",
        ignore_case: bool = False,
    ) -> str:
        """Search a directory and those below it: for lines that contain a text, or, without a text,
        for files by name. Links and .git are skipped.

        Args:
            text: The text that the lines must contain, literally.
            name: A pattern for the names of files, such as *.py; for the name only, not the path.
            path: The directory to search.
            ignore_case: Ignore the difference between capital and small letters.
        """
        with self._grants.walk(path) as target:
            return search(target, text, name, ignore_case, self.settings.file_bytes, context)

    def write_file(self, path: str, text: str, context: InvocationContext) -> str:
        """Write a text file: create a new one, or replace the whole content of an existing one.

        Args:
            path: The file. Missing directories on the way are created.
            text: The whole content of the file.
        """
        data = encode(text, self.settings.file_bytes)
        with self._write_alone(), self._grants.walk(path, creates=True) as target:
            before = ensure_writable(target)
            replace_file(target, data, before, context)
            action = "created" if before is None else "replaced"
            return f"{target.shown} was {action}: {len(data)} bytes."

    def edit_file(self, path: str, old: str, new: str, context: InvocationContext) -> str:
        """Replace a text that occurs exactly once in a text file.

        Args:
            path: The file.
            old: The exact text to replace, including spaces and line ends, with enough context that
                it occurs only once.
            new: The new text.
        """
        with self._write_alone(), self._grants.walk(path) as target:
            if ensure_writable(target) is None:
                raise Refusal(f"{target.shown} does not exist. write_file creates a file.")
            with open_file(target) as (descriptor, status):
                whole = read_whole(target, descriptor, self.settings.file_bytes, context)
            try:
                text = whole.decode("utf-8")
            except UnicodeDecodeError as error:
                raise Refusal(
                    f"{target.shown} is not UTF-8 text, so it cannot be edited."
                ) from error
            edit = replace_once(text, old, new, target.shown)
            replace_file(target, encode(edit.text, self.settings.file_bytes), status, context)
            return f"{target.shown} was edited at line {edit.line}."

    @contextmanager
    def _write_alone(self) -> Iterator[None]:
        """Hold the lock for writing, so that concurrent edits do not undo each other."""
        # The timeout is shorter than the invoker's, so that the message of this timeout is
        # reported.
        if not self._write_lock.acquire(timeout=_LOCK_SECONDS):
            raise Refusal("Another write is not finished; try again later.")
        try:
            yield
        finally:
            self._write_lock.release()

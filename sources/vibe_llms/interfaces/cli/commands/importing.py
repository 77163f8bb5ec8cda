"""``vibe import``."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import click

from vibe_llms.conversations.exchange.formats import read_document
from vibe_llms.foundation.attrs_classes import define
from vibe_llms.interfaces.cli.access import open_plugins, open_store
from vibe_llms.interfaces.cli.options import IMPORTER, command, json_option

if TYPE_CHECKING:
    from vibe_llms.conversations.conversation import Conversation
    from vibe_llms.conversations.metadata import ConversationMetadata
    from vibe_llms.conversations.stores.interfaces import ConversationStore
    from vibe_llms.messages.canisters import AnyCanister
    from vibe_llms.messages.losses import Loss
    from vibe_llms.plugins.specification.conversations import ImporterSpecification


_STEP = 20
"""Number of imported conversations between two updates of the progress."""


@define
class ImportReport:
    """Import results of the conversations in some files.

    Attributes:
        imported: New conversations, with their names.
        forked: Conversations that the new forks among them do not continue, by the forks' ids.
        extended: Known conversations that have grown.
        known: Conversations that were already stored.
        losses: Parts of the stored conversations that could not be converted.
    """

    imported: list[tuple[str, str | None]] = attrs.field(factory=list)
    forked: dict[str, str] = attrs.field(factory=dict)
    extended: list[str] = attrs.field(factory=list)
    known: list[str] = attrs.field(factory=list)
    losses: list[tuple[str, Path, Loss]] = attrs.field(factory=list)

    def write(self, as_json: bool) -> None:
        """Print the stored conversations, and report the others."""
        from vibe_llms.interfaces.cli.output import note, write, write_json

        if as_json:
            write_json(
                {
                    "imported": [identity for identity, _ in self.imported],
                    "forked": self.forked,
                    "extended": self.extended,
                    "already_there": self.known,
                    "losses": [
                        {
                            "conversation": identity,
                            "file": str(path),
                            "kind": str(loss.kind),
                            "path": loss.path,
                            "reason": loss.reason,
                        }
                        for identity, path, loss in self.losses
                    ],
                }
            )
            return
        for identity, parent in self.forked.items():
            note(f"the file does not continue {parent}; its messages are in the fork {identity}")
        for identity, name in self.imported:
            write(f"{identity}\t{' '.join((name or '').split())}")
        counts = Counter((str(loss.kind), loss.reason) for _, _, loss in self.losses)
        for (kind, reason), count in sorted(counts.items()):
            note(f"{kind}, {count} times: {reason}" if count > 1 else f"{kind}: {reason}")
        parts = [f"{len(self.imported)} imported"]
        parts += [f"{len(self.extended)} extended"] if self.extended else []
        parts += [f"{len(self.known)} already stored"] if self.known else []
        note(", ".join(parts))


def examine(importer: ImporterSpecification, path: Path) -> int:
    """Read a whole file and count its conversations. Then nothing of an invalid file is stored.

    Raises:
        CodecError: The file does not have this form; names the place.
        RequestError: The file cannot be read, or contains no conversation.
    """
    from vibe_llms.conversations.stores.identities import ensure_identity
    from vibe_llms.exceptions import CodecError, RequestError

    count = 0
    with _show_count() as show:
        for found in read_document(importer, path):
            identity = ensure_identity(found.value.id)  # the id becomes part of file names
            counts = Counter(each.id for each in found.value.canisters)
            if repeated := [each for each, times in counts.items() if times > 1]:
                raise CodecError(
                    path=str(path),
                    detail=f"{path}: two messages of {identity} have the id {repeated[0]!r}.",
                    remedy="Export the conversation again.",
                )
            count += 1
            show(f"{count:,} conversations read")
    if not count:
        raise RequestError(path=str(path), detail=f"No conversations in {path}.")
    return count


def store_all(
    store: ConversationStore,
    importer: ImporterSpecification,
    path: Path,
    count: int,
    report: ImportReport,
) -> None:
    """Store the new conversations of a file; show the progress if there are many."""
    with _show_count() as show:
        for number, found in enumerate(read_document(importer, path), 1):
            conversation = found.value
            if _store(store, conversation, report):
                report.losses += ((conversation.id, path, loss) for loss in found.losses)
            show(f"{number:,} of {count:,} conversations stored")


@contextmanager
def _show_count() -> Iterator[Callable[[str], None]]:
    """Show the progress of possibly long work on a terminal, and erase it at the end."""
    is_terminal, number = sys.stderr.isatty(), 0

    def show(text: str) -> None:
        nonlocal number
        number += 1
        if is_terminal and number % _STEP == 0:
            sys.stderr.write(f"\r\x1b[2K{text}")
            sys.stderr.flush()

    try:
        yield show
    finally:
        if is_terminal and number >= _STEP:
            sys.stderr.write("\r\x1b[2K")
            sys.stderr.flush()


def _store(store: ConversationStore, conversation: Conversation, report: ImportReport) -> bool:
    """Store the missing messages of a conversation; return whether there were any.

    If it does not continue the stored messages, because an earlier question was edited at the
    source or it was continued here, its own messages become a fork. The fork's id follows from the
    first of them, so that the next import extends it.
    """
    from vibe_llms.conversations.conversation import Conversation
    from vibe_llms.conversations.exchange.drafts import derive_identity
    from vibe_llms.conversations.metadata import ParentLink
    from vibe_llms.exceptions import UnknownConversationError

    identity, parent = conversation.id, None
    while True:
        try:
            stored = Conversation.restore(store, identity)
        except UnknownConversationError:
            break
        shared = _count_shared(stored.canisters, conversation.canisters)
        if shared == len(conversation):
            report.known.append(conversation.id)
            return False
        if shared == len(stored):
            stored.add_canisters(conversation.canisters[shared:])
            stored.save(store)
            report.extended.append(identity)
            return True
        parent = ParentLink(identity=identity, canisters=shared)
        identity = derive_identity("import", identity, conversation.canisters[shared].id)
    created = conversation.metadata.created
    updated = max([created, *(each.timestamp for each in conversation.canisters[-1:])])
    metadata = attrs.evolve(conversation.metadata, parent=parent, updated=updated)
    start = 0 if parent is None else parent.canisters
    _plant(store, identity, metadata, conversation.canisters[start:])
    report.imported.append((identity, metadata.name))
    if parent is not None:
        report.forked[identity] = parent.identity
    return True


def _count_shared(stored: Sequence[AnyCanister], imported: Sequence[AnyCanister]) -> int:
    """Count the messages with which both begin."""
    for count, (one, other) in enumerate(zip(stored, imported, strict=False)):
        if _identify(one) != _identify(other):
            return count
    return min(len(stored), len(imported))


def _identify(canister: AnyCanister) -> tuple[str, str, str]:
    return canister.id, canister.role, getattr(canister, "invocation_id", "")


def _plant(
    store: ConversationStore,
    identity: str,
    metadata: ConversationMetadata,
    canisters: Sequence[AnyCanister],
) -> None:
    """Store a conversation completely or not at all."""
    from vibe_llms.exceptions import StoreError

    try:
        store.plant(identity, metadata, canisters)
    except BaseException:  # including Ctrl-C: a partial conversation would look complete
        with suppress(StoreError):
            store.delete(identity)
        raise


@command("import")
@click.argument(
    "files", metavar="FILE...", nargs=-1, required=True, type=click.Path(path_type=Path)
)
@click.option(
    "--form",
    default="",
    type=IMPORTER,
    help="Format, such as claude-code (default: detected).",
)
@json_option
def import_(files: tuple[Path, ...], form: str, as_json: bool) -> None:
    """Import conversations from `vibe export`, other programs and coding agents.

    FILE is a JSON document; the ZIP archive of ChatGPT or claude.ai; llm's logs.db; or a session of
    Claude Code, Codex or opencode, or the folder of all its sessions. Nothing is stored until all
    of it has been read. Known conversations are not stored twice; new messages in them are added,
    or become a fork if they do not continue the stored ones. Losses are reported.

    \b
        vibe import ~/.claude/projects
        vibe import ~/.codex/sessions ~/.local/share/opencode
    """
    from vibe_llms.interfaces.cli.commands.importing import ImportReport, examine, store_all
    from vibe_llms.interfaces.cli.exchanging import choose_reader

    plugins = open_plugins()
    chosen = [(choose_reader(plugins, form, path), path) for path in files]
    counts = [examine(reader, path) for reader, path in chosen]
    report = ImportReport()
    store = open_store()
    try:
        for (reader, path), count in zip(chosen, counts, strict=True):
            store_all(store, reader, path, count, report)
    finally:
        report.write(as_json)

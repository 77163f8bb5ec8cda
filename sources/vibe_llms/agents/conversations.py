"""Conversations of a store on this machine, with access control by owner."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any, Final

from vibe_llms.agents.local import LocalRuns
from vibe_llms.conversations.conversation import Conversation
from vibe_llms.conversations.exchange.formats import find_format, write_document
from vibe_llms.conversations.index.result_rows import ConversationRow, SearchHit
from vibe_llms.conversations.lineage.differences import (
    ConversationDifference,
    compare_conversations,
)
from vibe_llms.conversations.lineage.families import Relative, survey_family
from vibe_llms.conversations.metadata import ConversationMetadata
from vibe_llms.conversations.names import read_name
from vibe_llms.conversations.stores.interfaces import ConversationStore, History
from vibe_llms.conversations.tags import OWNER_TAG, PART_TAG
from vibe_llms.exceptions import (
    RequestError,
    Stage,
    StoreError,
    UnknownConversationError,
    UnknownNameError,
)
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.portal import in_thread
from vibe_llms.messages.contents import MediaContent
from vibe_llms.messages.identities import produce_identity
from vibe_llms.messages.views import media_of
from vibe_llms.plugins.specification.conversations import ExporterSpecification
from vibe_llms.retrieval.ranking import MAX_NEIGHBORS, MeaningHit, produce_search_hit
from vibe_llms.runs.owners import read_owner
from vibe_llms.runs.summaries import RunSummary
from vibe_llms.runs.surveying import read_summary

UPDATE_SECONDS: Final = 20.0
"""How long a search by meaning reads new conversations before it answers."""

_IDENTITY_DIGITS: Final = 32
MEDIA_TYPES: Final[Mapping[str, str]] = {
    "markdown": "text/markdown; charset=utf-8",
    "json": "application/json",
    "html": "text/html; charset=utf-8",
}
"""Media types of the built-in formats; those of plugins are plain text."""


@frozen(kw_only=True)
class ConversationDocument:
    """A conversation exported to a format.

    Attributes:
        name: File name for the document.
        media_type: Media type of the document.
        text: The document.
    """

    name: str
    media_type: str
    text: str


class LocalConversations:
    """List, read, name, fork, export and delete conversations.

    ``subject`` names the caller, as with :class:`.interfaces.Runs`; conversations of others do not
    exist for the caller.

    Args:
        runs: Runs of the same store.
    """

    def __init__(self, runs: LocalRuns) -> None:
        self.runs = runs
        self.store: ConversationStore = runs.store
        self.index = runs.conversation_index

    @in_thread
    def survey(
        self, *, limit: int, after: str = "", subject: str = ""
    ) -> tuple[Sequence[ConversationRow], bool]:
        """Return the caller's conversations, the most recently updated first.

        Args:
            limit: Maximum number of conversations.
            after: Id of the conversation behind which to begin.

        Returns:
            The conversations, and whether there are more.

        Raises:
            RequestError: The conversation ``after`` does not exist.
        """
        fetched = limit + 1
        while True:
            listed = self.index.survey(limit=fetched)
            has_all = len(listed) < fetched
            start = _find_start(listed, after)
            if start is not None:
                if after and not self._belongs_to(after, subject):
                    break
                user_rows = (row for row in listed[start:] if self._belongs_to(row.id, subject))
                found = [*islice(user_rows, limit + 1)]
                if len(found) > limit or has_all:
                    return found[:limit], len(found) > limit
            elif has_all:
                break
            # The conversation `after` is further back, or too many are those of other callers.
            fetched *= 4
        detail = "The conversation does not exist (or was deleted); start a new one."
        raise RequestError(path="after", detail=detail, stage=Stage.FRAME)

    @in_thread
    def search(
        self, words: str, *, limit: int, subject: str = ""
    ) -> tuple[Sequence[SearchHit], bool]:
        """Return the places where all of the words occur, and whether there are more.

        Raises:
            LimitError: There are too many words to search for at once.
        """
        fetched = limit + 1
        while True:
            hits = self.index.search(words, limit=fetched)
            user_hits = [hit for hit in hits if self._belongs_to(hit.id, subject)]
            if len(user_hits) > limit or len(hits) < fetched:
                return user_hits[:limit], len(user_hits) > limit
            fetched *= 4  # some hits are in conversations of other callers

    async def search_meaning(
        self, query: str, *, limit: int, subject: str = ""
    ) -> tuple[Sequence[SearchHit], bool, bool]:
        """Return the messages that are nearest to a query in meaning.

        Returns:
            The messages, whether there are more, and whether all conversations were compared:
            reading new ones stops after :data:`UPDATE_SECONDS`, and a later search continues.

        Raises:
            DependencyError: A library or the embedder's weights are not installed.
        """
        from vibe_llms.retrieval.meaning import MeaningIndex

        is_whole = True
        async with MeaningIndex(index=self.index, application=self.runs.application) as meanings:
            try:
                async with asyncio.timeout(UPDATE_SECONDS):
                    await meanings.update()
            except TimeoutError:
                is_whole = False
            # The index has the messages of all owners. Usually a few more than the limit are
            # enough; otherwise, get as many as the index can find.
            for fetched in (4 * limit, MAX_NEIGHBORS):
                hits = await meanings.search(query, limit=fetched, update=False)
                user_hits = await asyncio.to_thread(self._filter_hits, hits, subject, limit + 1)
                if len(user_hits) > limit or len(user_hits) == len(hits):
                    break
        found = await asyncio.to_thread(self._produce_search_hits, user_hits[:limit])
        return found, len(user_hits) > limit, is_whole

    @in_thread
    def read(self, identity: str, *, subject: str = "") -> History:
        """Return the history; damaged parts are omitted and reported."""
        self.runs.access.ensure(identity, subject)
        return self.store.read(identity, tolerant=True)

    @in_thread
    def survey_family(self, identity: str, *, subject: str = "") -> Relative:
        """Return the forks of a conversation and of its ancestors; only those of the caller."""
        self.runs.access.ensure(identity, subject)
        return survey_family(
            self.index, identity, admits=lambda each: self._belongs_to(each, subject)
        )

    @in_thread
    def compare(self, first: str, second: str, *, subject: str = "") -> ConversationDifference:
        """Compare two conversations turn by turn, as ``vibe diff`` does."""
        for identity in (first, second):
            self.runs.access.ensure(identity, subject)
        return compare_conversations(self.store, first, second)

    @in_thread
    def read_content(
        self, identity: str, content_id: str, *, subject: str = ""
    ) -> tuple[MediaContent, bytes]:
        """Return a content of a conversation, such as a picture, and its data.

        Raises:
            UnknownNameError: The conversation has no content with this id.
        """
        self.runs.access.ensure(identity, subject)
        media = media_of(self.store.read(identity, tolerant=True).canisters)
        found = next((each for each in media if each.content_id == content_id), None)
        if found is None:
            raise UnknownNameError(kind="content", name=content_id, known=())
        return found, self.store.contents.read(content_id)

    @in_thread
    def change(
        self,
        identity: str,
        *,
        name: str | None = None,
        keep: int | None = None,
        pinned: Sequence[str] | None = None,
        subject: str = "",
    ) -> ConversationMetadata:
        """Change the name of a conversation, or what its compactions keep; ``None`` keeps a field.

        Args:
            name: The name; a blank one removes it.
            keep: Number of last turns that a compaction keeps word for word.
            pinned: Ids of the messages that every compaction keeps.

        Raises:
            RequestError: Nothing is to be changed, the name is too long or has more than one line,
                or the conversation has no message with one of the ids.
        """
        self.runs.access.ensure(identity, subject)
        changes: dict[str, Any] = {}
        if name is not None:
            changes["name"] = read_name(name)
        if keep is not None:
            changes["keep"] = keep
        if pinned is not None:
            known = {each.id for each in self.store.read(identity, tolerant=True).canisters}
            if unknown := [each for each in pinned if each not in known]:
                detail = f"The conversation has no message {unknown[0]!r}."
                raise RequestError(path="pinned", detail=detail, stage=Stage.FRAME)
            changes["pinned"] = tuple(pinned)
        if not changes:
            detail = "Nothing is to be changed: pass name, keep or pinned."
            raise RequestError(path="body", detail=detail, stage=Stage.FRAME)
        return self.store.update_metadata(identity, **changes)

    @in_thread
    def fork(
        self,
        identity: str,
        *,
        from_index: int | None = None,
        key: str = "",
        subject: str = "",
    ) -> str:
        """Create a conversation that shares another's history; return its id.

        Args:
            from_index: Number of canisters to share; ``None`` for all.
            key: Idempotency key: the same request with the same key returns the same fork.

        Raises:
            RequestError: The conversation has fewer canisters.
        """
        self.runs.access.ensure(identity, subject)
        if from_index is not None:
            count = len(self.store.read(identity).canisters)
            if from_index > count:
                detail = f"{identity} has only {count} canisters."
                raise RequestError(path="from_index", detail=detail, stage=Stage.FRAME)
        child = _derive_child(subject, key, identity, from_index) if key else produce_identity()
        ensure_fork(self.store, identity, child, subject, from_index=from_index)
        return child

    @in_thread
    def export(self, identity: str, form: str, *, subject: str = "") -> ConversationDocument:
        """Export a conversation to a format.

        Raises:
            UnknownNameError: The format is unknown.
        """
        self.runs.access.ensure(identity, subject)
        plugins = self.runs.application.plugins
        chosen = find_format(plugins.survey_specifications(ExporterSpecification), form)
        conversation = Conversation.restore(self.store, identity)
        text = write_document(chosen, conversation, self.store.contents)
        kind = MEDIA_TYPES.get(chosen.name, "text/plain; charset=utf-8")
        suffix = next(iter(chosen.suffixes), ".txt")
        return ConversationDocument(name=identity + suffix, media_type=kind, text=text)

    async def delete(self, identity: str, *, subject: str = "") -> None:
        """Delete a conversation; with a flow, its visits are deleted, too.

        Raises:
            RequestError: A run of it is active and has to be stopped first.
        """

        def find_summary() -> RunSummary | None:
            self.runs.access.ensure(identity, subject)
            if self.store.open_log(identity).read_last() is None:
                return None
            return read_summary(self.store, identity)

        run = await asyncio.to_thread(find_summary)
        if run is None:
            await asyncio.to_thread(self.store.delete, identity)
        else:
            # The owner of the run may differ from the caller, who was checked above.
            await self.runs.delete(identity, subject=run.subject)

    # --- in a thread -----------------------------------------------------------------------------

    def _belongs_to(self, identity: str, subject: str) -> bool:
        try:
            return (
                self.runs.access.may_access_all(subject)
                or read_owner(self.store, identity) == subject
            )
        except StoreError:  # deleted in the meantime, or damaged
            return False

    def _filter_hits(
        self, hits: Iterable[MeaningHit], subject: str, limit: int
    ) -> list[MeaningHit]:
        user_hits = (hit for hit in hits if self._belongs_to(hit.document, subject))
        return [*islice(user_hits, limit)]

    def _produce_search_hits(self, hits: Iterable[MeaningHit]) -> list[SearchHit]:
        return [
            produce_search_hit(hit, self.store.read_metadata(hit.document).name) for hit in hits
        ]


def ensure_fork(
    store: ConversationStore,
    identity: str,
    child: str,
    subject: str,
    *,
    from_index: int | None = None,
) -> bool:
    """Create a fork with an owner, unless another caller did; return whether this call created it.

    The fork is not a part of another conversation. Does file work.

    Args:
        child: Id of the fork.

    Raises:
        StoreError: The fork could not be created.
    """
    is_new = True
    try:
        store.fork(identity, from_index=from_index, child=child)
    except StoreError as error:
        try:
            store.read_metadata(child)
        except UnknownConversationError:
            raise error from error.__cause__  # the cause may be a full disk
        is_new = False
    # Also for a fork of another caller, who may have died before it set the owner.
    parent = store.read_metadata(identity)
    inherited = [tag for tag in parent.tags if not tag.startswith((PART_TAG, OWNER_TAG))]
    tags = (*inherited, *([OWNER_TAG + subject] if subject else []))
    if store.read_metadata(child).tags != tags:
        store.update_metadata(child, tags=tags)
    return is_new


def _find_start(rows: Sequence[ConversationRow], after: str) -> int | None:
    """Return the index of the row behind a conversation; ``None`` if that is not among the rows.

    Args:
        after: Id of the conversation; empty to begin with the first row.
    """
    if not after:
        return 0
    return next((index + 1 for index, row in enumerate(rows) if row.id == after), None)


def _derive_child(subject: str, key: str, identity: str, from_index: int | None) -> str:
    """Return the id of a fork that is requested with a key: the same each time."""
    seed = f"{len(subject)}:{subject}{len(key)}:{key}{identity}@{from_index}".encode()
    return hashlib.sha256(seed).hexdigest()[:_IDENTITY_DIGITS]

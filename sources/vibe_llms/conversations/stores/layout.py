"""Where everything lies below the directory of a store.

::

    conversations/
      .lock                     shared by who reads, creates and forks; alone by who deletes
      .creating/                folders of conversations that are about to appear
      .deleting/                a deletion on its way (see `removal`)
      <id>/
        lock                    held for an append; gone while the messages are replaced
        metadata.toml           makes the folder a conversation
        messages.jsonl          one canister a line
        messages.tally          how many lines were acknowledged
        messages.torn-<n>       what a crash left of a last line
        runs.jsonl              what happened in the conversation's runs, one event a line
        runs.tally              how many of its lines were acknowledged
        runs.torn-<n>           what a crash left of its last line
        runs.lock               held by the run that is on its way
    content/
      .lock                     shared by who adds; alone by who collects
      <first 4>/<sha256>/{data, metadata.toml}
"""

from __future__ import annotations

from vibe_llms.conversations.stores.naming import ensure_identity
from vibe_llms.foundation.attrs_classes import frozen

METADATA, MESSAGES, TALLY, LOCK = "metadata.toml", "messages.jsonl", "messages.tally", "lock"


@frozen
class Layout:
    """Makes the paths below the folder ``conversations``."""

    root: str

    @property
    def lock(self) -> str:
        """The lock of the structure: which conversations there are, and who is whose parent."""
        return f"{self.root}/.lock"

    @property
    def creating(self) -> str:
        """Holds folders that are renamed into place when they are complete."""
        return f"{self.root}/.creating"

    @property
    def deleting(self) -> str:
        """Exists only while a deletion is on its way, or was interrupted by a crash."""
        return f"{self.root}/.deleting"

    def folder(self, identity: str) -> str:
        """The folder of one conversation. Raises StoreError for an identity that is none."""
        return f"{self.root}/{ensure_identity(identity)}"

    def metadata(self, identity: str) -> str:
        """The file that makes the folder a conversation."""
        return f"{self.folder(identity)}/{METADATA}"

    def messages(self, identity: str) -> str:
        """One canister a line."""
        return f"{self.folder(identity)}/{MESSAGES}"

    def tally(self, identity: str) -> str:
        """How many lines were acknowledged."""
        return f"{self.folder(identity)}/{TALLY}"

    def conversation_lock(self, identity: str) -> str:
        """The file that is gone while the messages are being replaced."""
        return f"{self.folder(identity)}/{LOCK}"

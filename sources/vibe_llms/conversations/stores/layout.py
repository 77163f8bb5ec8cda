"""Layout of a store's directory.

::

    conversations/
      .lock                     shared for read, create and fork; exclusive for delete
      .creating/                folders of conversations that are about to appear
      .deleting/                a deletion in progress (see `removal`)
      <shard>/                  named by a checksum of the ids in it; its time shows changes
        <id>/
          lock                  held for an append; absent while the messages are replaced
          metadata.toml         makes the folder a conversation
          messages.jsonl        one canister per line
          messages.tally        number of acknowledged lines
          messages.torn-<n>     incomplete last line after a crash, moved here
          runs.jsonl            events of the conversation's runs, one per line
          runs.tally            number of its acknowledged lines
          runs.torn-<n>         its incomplete last line after a crash, moved here
          runs.lock             held by the current run
      <id>/                     the same, from the former layout or put there by hand
    content/
      .lock                     shared for add; exclusive for garbage collection
      <first 4>/<sha256>/{data, metadata.toml}
"""

from __future__ import annotations

from vibe_llms.conversations.stores.identities import ensure_identity
from vibe_llms.conversations.stores.sharding import find_folder, name_shard
from vibe_llms.foundation.attrs_classes import frozen

METADATA, MESSAGES, TALLY, LOCK = "metadata.toml", "messages.jsonl", "messages.tally", "lock"
RUNS = "runs.jsonl"


@frozen
class Layout:
    """Paths below the folder ``conversations``."""

    root: str

    @property
    def lock(self) -> str:
        """Lock of the structure: the set of conversations and their parents."""
        return f"{self.root}/.lock"

    @property
    def creating(self) -> str:
        """Folder of incomplete folders, which are renamed into place when they are complete."""
        return f"{self.root}/.creating"

    @property
    def deleting(self) -> str:
        """Folder of a deletion; exists only during a deletion, or after a crash."""
        return f"{self.root}/.deleting"

    def folder(self, identity: str) -> str:
        """Return the folder of one conversation. Raises StoreError for an invalid identity."""
        return find_folder(self.root, ensure_identity(identity))

    def shard_folder(self, identity: str) -> str:
        """Return the folder of one conversation if it is in a shard, the usual place."""
        return f"{self.root}/{name_shard(ensure_identity(identity))}/{identity}"

    def metadata(self, identity: str) -> str:
        """Return the metadata file, which makes the folder a conversation."""
        return f"{self.folder(identity)}/{METADATA}"

    def messages(self, identity: str) -> str:
        """Return the file of messages, one canister per line."""
        return f"{self.folder(identity)}/{MESSAGES}"

    def tally(self, identity: str) -> str:
        """Return the file with the number of acknowledged lines."""
        return f"{self.folder(identity)}/{TALLY}"

    def conversation_lock(self, identity: str) -> str:
        """Return the lock file, which is absent while the messages are being replaced."""
        return f"{self.folder(identity)}/{LOCK}"

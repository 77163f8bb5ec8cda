"""That a conversation survives as a JSON document."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies.messages import canisters
from vibe_llms.conversations import Conversation, MemoryStore
from vibe_llms.conversations.canister_media import hydrate
from vibe_llms.conversations.exchange import export_json, import_json
from vibe_llms.conversations.metadata import ConversationMetadata, ParentLink
from vibe_llms.exceptions import CodecError, StoreError
from vibe_llms.messages.canisters import AnyCanister, UserCanister
from vibe_llms.messages.contents import ImageContent

MOMENT = datetime(2025, 11, 15, 10, tzinfo=UTC)


@given(
    said=st.lists(canisters, max_size=4, unique_by=lambda canister: canister.id),
    name=st.none() | st.text(max_size=9),
    tags=st.lists(st.text(max_size=4)),
    keep=st.none() | st.integers(0, 9),
)
def test_reads_back_equal(
    said: list[AnyCanister], name: str | None, tags: list[str], keep: int | None
) -> None:
    """Every canister and all metadata come back as they were, media with their bytes."""
    conversation = Conversation(
        canisters=[_with_data(canister) for canister in said],
        metadata=ConversationMetadata(
            name=name, tags=tuple(tags), keep=keep, pinned=tuple(tags), created=MOMENT
        ),
    )

    back = import_json(export_json(conversation, MemoryStore().contents))

    assert (back.id, back.metadata) == (conversation.id, conversation.metadata)
    assert list(back.canisters) == list(conversation.canisters)


def _with_data(canister: AnyCanister) -> AnyCanister:
    """Gives media that a strategy has named only by their digest some bytes of their own."""
    return attrs.evolve(
        canister,
        content=tuple(
            attrs.evolve(
                content,
                data=b"bytes",
                content_id=ImageContent(mime_type="a/b", data=b"bytes").content_id,
            )
            if getattr(content, "content_id", None) is not None
            else content
            for content in canister.content
        ),
    )


def test_carries_the_bytes_of_media_from_the_store() -> None:
    """A document needs no content store to be read."""
    store = MemoryStore()
    digest = store.contents.add(b"\x89PNG", mime_type="image/png")
    conversation = Conversation(
        canisters=[UserCanister(ImageContent(mime_type="image/png", content_id=digest))]
    )

    back = import_json(export_json(conversation, store.contents))

    assert list(back.canisters) == list(hydrate(conversation.canisters, store.contents))
    assert back.canisters[0].content[0].data == b"\x89PNG"  # type: ignore[union-attr]


def test_writes_out_what_a_fork_inherits_and_names_its_parent() -> None:
    """A fork's document stands alone; its parent is mentioned and no longer needed."""
    link = ParentLink(identity="parent", canisters=1)
    conversation = Conversation(
        canisters=[UserCanister("shared"), UserCanister("own")],
        metadata=ConversationMetadata(parent=link),
    )

    document = export_json(conversation, MemoryStore().contents)

    assert json.loads(document)["forked_from"] == "parent"
    assert len(json.loads(document)["canisters"]) == 2
    assert import_json(document).metadata.parent is None


def test_holds_one_canister_a_line() -> None:
    """A document can be read with tools that know lines."""
    conversation = Conversation(canisters=[UserCanister("one\ntwo"), UserCanister("three")])

    lines = export_json(conversation, MemoryStore().contents).splitlines()

    assert [line for line in lines if '"role"' in line] == lines[-4:-2]


def test_refuses_to_write_a_document_with_a_gap() -> None:
    """A document that could not be read back equal is not written."""
    lost = ImageContent(mime_type="image/png", content_id="0" * 64)

    with pytest.raises(StoreError):
        export_json(Conversation(canisters=[UserCanister(lost)]), MemoryStore().contents)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("not json", "Invalid JSON"),
        ("[]", "not an exported conversation"),
        ('{"format": "other"}', r"not an exported conversation. @ \$.format"),
        ('{"format": "vibe-llms.conversation", "version": 2}', "Upgrade"),
        ('{"format": "vibe-llms.conversation", "version": 1}', "missing or invalid: .*'id'"),
    ],
)
def test_says_what_is_wrong_with_a_document(document: str, message: str) -> None:
    """A document that is none of ours is refused with the place and the reason."""
    with pytest.raises(CodecError, match=message):
        import_json(document)


def test_says_which_canister_does_not_read() -> None:
    """A mistake in a canister is found by its number."""
    document = json.loads(
        export_json(Conversation(canisters=[UserCanister("a")]), MemoryStore().contents)
    )
    document["canisters"].append({"role": "robot"})

    with pytest.raises(CodecError, match=r"\$\.canisters\[1\]"):
        import_json(json.dumps(document))

"""Verification of stores, and garbage collection of unused content."""

from __future__ import annotations

import math
from collections.abc import Iterable

from vibe_llms.conversations.stores.interfaces import (
    ConversationStore,
    LeftBytes,
    Seen,
)
from vibe_llms.exceptions import ConverseError, Finding, StoreError
from vibe_llms.foundation.attrs_classes import frozen

GRACE_SECONDS = 3600.0
"""Grace period for unreferenced content, as content is stored before the message that names it."""


@frozen(kw_only=True)
class Verification:
    """Result of a verification.

    Attributes:
        conversations, canisters, contents: Numbers of items verified.
        findings: Damage; empty if there is none.
        remarks: Notes that are not damage, such as parts that cannot be verified.
    """

    conversations: int
    canisters: int
    contents: int
    findings: tuple[Finding, ...]
    remarks: tuple[Finding, ...] = ()


def verify(store: ConversationStore, identities: Iterable[str] | None = None) -> Verification:
    """Verify every line, every link to a parent, every reference and every content's hash.

    Changes nothing, except that it completes a deletion that a crash interrupted.

    Args:
        identities: Ids of the conversations to verify, with the content they refer to; ``None``
            for all conversations and all content.
    """
    findings: list[Finding] = []
    remarks: list[Finding] = []
    seen: Seen = {}
    references: set[str] = set()
    contents = set() if identities is not None else set(store.contents.survey())
    conversations = canisters = 0
    for identity in sorted(store.survey() if identities is None else identities):
        conversations += 1
        try:
            examination = store.examine(identity, seen=seen)
        except StoreError as error:
            findings.append(Finding(place=error.path or identity, message=error.describe()))
            continue
        canisters += examination.canisters
        references |= examination.references
        findings.extend(examination.findings)
        remarks.extend(examination.remarks)
    for content_id in sorted(contents | references):
        findings.extend(_examine_content(store, content_id))
    return Verification(
        conversations=conversations,
        canisters=canisters,
        contents=len(contents | references),
        findings=tuple(dict.fromkeys(findings)),  # forks share their parent's damage
        remarks=tuple(remarks),
    )


def _examine_content(store: ConversationStore, content_id: str) -> tuple[Finding, ...]:
    try:
        return store.contents.examine(content_id)
    except ConverseError as error:
        return (Finding(place=content_id, message=str(error)),)


@frozen(kw_only=True)
class Collection:
    """Garbage: unused content.

    Attributes:
        content_ids: Sorted ids.
        size_bytes: Sum of the sizes.
        strays: Files left over in places outside of the database, such as a directory or a bucket.
    """

    content_ids: tuple[str, ...]
    size_bytes: int
    strays: tuple[LeftBytes, ...] = ()


def plan_collection(
    store: ConversationStore, *, grace_seconds: float = GRACE_SECONDS, strays: bool = False
) -> Collection:
    """Find content that no conversation uses, without removing it.

    Args:
        grace_seconds: Keep content that was added more recently.
        strays: Also list the places outside of the database, to find files left over there.
    """
    references = set(store.survey_references())
    unused = [
        content_id
        for content_id in sorted(store.contents.survey())
        if content_id not in references and _measure_age(store, content_id) >= grace_seconds
    ]
    return _produce_collection(
        store, unused, _survey_strays(store, grace_seconds) if strays else ()
    )


def _survey_strays(store: ConversationStore, grace_seconds: float) -> tuple[LeftBytes, ...]:
    backends = store.content_backends
    return () if backends is None else tuple(backends.survey_strays(grace_seconds=grace_seconds))


def _produce_collection(
    store: ConversationStore, content_ids: list[str], strays: tuple[LeftBytes, ...] = ()
) -> Collection:
    size = sum(_measure_size(store, content_id) for content_id in content_ids)
    size += sum(stray.size_bytes for stray in strays)
    return Collection(content_ids=tuple(content_ids), size_bytes=size, strays=strays)


def _measure_age(store: ConversationStore, content_id: str) -> float:
    try:
        return store.contents.measure_age_seconds(content_id)
    except StoreError:  # content without its data is useless
        return math.inf


def _measure_size(store: ConversationStore, content_id: str) -> int:
    try:
        return store.contents.access_metadata(content_id).size_bytes
    except StoreError:
        return 0


def collect_content(
    store: ConversationStore, plan: Collection, *, grace_seconds: float = GRACE_SECONDS
) -> Collection:
    """Remove the content of a plan, except content that is used by now.

    Holds the store's lock, so that no other program adds content meanwhile.

    Returns:
        The content removed.

    Raises:
        StoreError: Other programs kept adding content until the time limit of the lock.
    """
    with store.contents.hold_alone():
        now = plan_collection(store, grace_seconds=grace_seconds, strays=bool(plan.strays))
        # Only content of the plan, which the user has seen, is removed.
        removed_ids = [each for each in now.content_ids if each in set(plan.content_ids)]
        strays = tuple(each for each in now.strays if each in set(plan.strays))
        collected = _produce_collection(store, removed_ids, strays)
        for content_id in removed_ids:
            store.contents.remove(content_id)
        for stray in strays:
            assert store.content_backends is not None
            store.content_backends.remove_stray(stray)
    return collected

"""Attribution: author, instructions, node and cost of each message."""

from __future__ import annotations

from decimal import Decimal

import attrs
import pytest

from support.stores.talks import call, exchange, fork, save
from vibe_llms.conversations import MemoryStore
from vibe_llms.conversations.metadata import ConversationMetadata, ParentLink
from vibe_llms.conversations.tags import PART_TAG, SOURCE_TAG
from vibe_llms.events.engine import GenerationFinishedEvent
from vibe_llms.events.flow import NodeStartedEvent
from vibe_llms.messages.canisters import (
    InvocationCanister,
    ResultCanister,
    StopReason,
    SupervisorCanister,
)
from vibe_llms.runs.attribution import attribute_messages


def test_a_fork_names_the_ancestor_that_wrote_a_message() -> None:
    store = MemoryStore()
    root = save(store, [SupervisorCanister("Be brief."), *exchange("one")], identity="c")
    child = fork(store, root, exchange("two"), at=3, child="b")
    grandchild = fork(
        store, child, [SupervisorCanister("Be long."), *exchange("three")], at=5, child="a"
    )
    store.append(root, exchange("later"))
    found = attribute_messages(store, grandchild)
    assert [each.conversation for each in found] == [root] * 3 + [child] * 2 + [grandchild] * 3
    assert [each.turn for each in found] == [1, 1, 1, 2, 2, 3, 3, 3]
    assert [each.instructions for each in found] == [None, None, 0, None, 0, None, None, 5]
    assert [each.index for each in found if each.amount is not None] == [2, 4, 7]
    assert found[2].amount == Decimal("0.3")


@pytest.mark.parametrize("child", ["a", "z"])
def test_an_ancestor_precedes_a_fork_of_the_same_time(child: str) -> None:
    """A synchronization gives a fork the time of its parent."""
    store = MemoryStore()
    root = save(store, exchange("one"), identity="m")
    link = ParentLink(identity=root, canisters=2)
    created = store.read_metadata(root).created
    metadata = ConversationMetadata(created=created, updated=created, parent=link)
    store.plant(child, metadata, exchange("two"))
    found = attribute_messages(store, child)
    assert [each.conversation for each in found] == [root, root, child, child]


def test_picked_messages_name_their_source_while_it_exists() -> None:
    store = MemoryStore()
    source, target = save(store, exchange("one")), save(store, exchange("two"))
    child = fork(store, target, store.read(source).canisters, at=2)
    store.update_metadata(child, tags=[f"{SOURCE_TAG}{source}", f"{SOURCE_TAG}gone"])
    assert [each.conversation for each in attribute_messages(store, child)] == [
        target, target, source, source
    ]  # fmt: skip
    store.delete(source)
    assert [each.conversation for each in attribute_messages(store, child)][2:] == [child, child]


def test_the_logged_cost_wins() -> None:
    """A batch costs half of what the usage says."""
    store = MemoryStore()
    identity = save(store, exchange("one"))
    question = store.read(identity).canisters[0]
    log = store.open_log(identity)
    log.claim()
    log.append(
        "r",
        GenerationFinishedEvent(
            key=question.id,
            turn=1,
            model="m",
            provider="p",
            canisters=1,
            stop_reason=StopReason.ANSWERED,
            cents=150.0,
        ),
    )
    log.close()
    assert attribute_messages(store, identity)[1].amount == Decimal("1.5")


def test_a_visit_names_its_node() -> None:
    store = MemoryStore()
    flow = save(store, [])
    store.create("visit", ConversationMetadata(tags=(f"{PART_TAG}{flow}",)))
    store.append("visit", exchange("one"))
    log = store.open_log(flow)
    log.claim()
    log.append("r", NodeStartedEvent(node="P2", visit=1, conversation_id="visit"))
    log.close()
    assert [each.node for each in attribute_messages(store, "visit")] == ["P2", "P2"]


def test_loaded_skills_are_named_from_then_on() -> None:
    """A call that failed, or has no valid arguments, loads nothing."""
    store = MemoryStore()
    loads = [
        attrs.evolve(each, name="load_skill", arguments=arguments)
        if isinstance(each, InvocationCanister)
        else attrs.evolve(each, is_error=is_error)
        if isinstance(each, ResultCanister)
        else each
        for number, (arguments, is_error) in enumerate(
            [('{"name": "poet"}', False), ('{"name": "cook"}', True), ("{", False)]
        )
        for each in call(f"{number}?", f"call-{number}")
    ]
    found = attribute_messages(store, save(store, [*loads, *exchange("last")]))
    assert [each.skills for each in found if each.origin] == [(), *[("poet",)] * 6]
    assert found[-2].skills == ()

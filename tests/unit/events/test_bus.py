"""The bus is a fan-out and nothing more."""

from __future__ import annotations

import pytest

from vibe_llms.events.bus import EventBus


def test_all_listeners_hear_in_the_order_of_subscription() -> None:
    """Each event reaches everybody who listens at that moment."""
    heard: list[tuple[str, int]] = []
    bus: EventBus[int] = EventBus()
    bus.subscribe(lambda event: heard.append(("a", event)))
    unsubscribe = bus.subscribe(lambda event: heard.append(("b", event)))

    bus.publish(1)
    unsubscribe()
    unsubscribe()
    bus(2)

    assert heard == [("a", 1), ("b", 1), ("a", 2)]


def test_a_raising_listener_gets_one_warning_and_harms_nobody(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Later listeners hear of the event, too, and the clumsy one of the next event."""
    heard: list[int] = []

    def clumsy(event: int) -> None:
        heard.append(-event)
        raise ValueError("oops")

    bus: EventBus[int] = EventBus()
    bus.subscribe(clumsy)
    bus.subscribe(heard.append)
    bus.publish(1)
    bus.publish(2)

    assert heard == [-1, 1, -2, 2]
    assert len([record for record in caplog.records if "clumsy" in record.getMessage()]) == 1


def test_an_asynchronous_listener_is_refused() -> None:
    """Nobody would wait for it; a lost coroutine would be a lost event."""

    async def listen(event: int) -> None: ...

    with pytest.raises(TypeError, match="listen is asynchronous"):
        EventBus[int]().subscribe(listen)


def test_listeners_may_come_and_go_while_an_event_is_published() -> None:
    """A listener that unsubscribes itself does not disturb the others."""
    heard: list[str] = []
    bus: EventBus[str] = EventBus()

    def once(event: str) -> None:
        heard.append("once")
        unsubscribe()

    unsubscribe = bus.subscribe(once)
    bus.subscribe(heard.append)
    bus.publish("x")
    bus.publish("y")

    assert heard == ["once", "x", "y"]

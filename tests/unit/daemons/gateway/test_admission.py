"""Places are taken and given back in any order, and nobody is forgotten or let in twice."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from vibe_llms.daemons.admission import Admission, ServiceLimits
from vibe_llms.exceptions import LimitError

STEPS = st.lists(
    st.one_of(
        st.just("come"),
        st.tuples(st.just("leave"), st.integers(0, 9)),
        st.tuples(st.just("give up"), st.integers(0, 9)),
        st.tuples(st.just("adopt"), st.integers(1, 4)),
    ),
    max_size=40,
)


@given(st.integers(1, 3), st.integers(0, 3), STEPS)
def test_as_many_are_in_as_may_be_and_the_others_wait_in_their_order(
    places: int, queue: int, steps: list[object]
) -> None:
    asyncio.run(_walk(places, queue, steps))


async def _walk(places: int, queue: int, steps: list[object]) -> None:
    admission = Admission(ServiceLimits(requests=places, waiting_requests=queue))
    inside = 0
    waiting: list[asyncio.Task[None]] = []
    for step in steps:
        match step:
            case "come":
                if admission.try_acquire():
                    inside += 1
                    assert inside <= places
                    continue
                task = asyncio.create_task(admission.acquire())
                await asyncio.sleep(0)
                if len(waiting) >= queue:
                    assert isinstance(task.exception(), LimitError)
                else:
                    waiting.append(task)
            case ("leave", _) if inside:
                admission.release()
                inside -= 1
            case ("give up", int(which)) if waiting:
                task = waiting.pop(which % len(waiting))
                task.cancel()
                await asyncio.wait({task})
            case ("adopt", int(new)):
                places = new
                admission.adopt(ServiceLimits(requests=places, waiting_requests=queue))
        for _ in range(3):
            await asyncio.sleep(0)
        while waiting and waiting[0].done():
            waiting.pop(0).result()
            inside += 1
        assert not any(task.done() for task in waiting)
        assert admission.taken == inside
        assert not waiting or inside >= places
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)

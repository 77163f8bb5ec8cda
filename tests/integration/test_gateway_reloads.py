"""The file of a gateway is read again while it runs, and no request is lost by that."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from support.gateways.gateway_files import RoutedGateway
from vibe_llms.daemons.server.launching import serve
from vibe_llms.daemons.server.settings import ServerSettings
from vibe_llms.testing.simulator import Simulator

FIRST = '[models.quick]\ntargets = ["first:gpt-5.5"]\n'
SECOND = '[models.quick]\ntargets = ["second:gpt-5.5"]\n'


@pytest.fixture
async def routed(tmp_path: Path) -> AsyncIterator[RoutedGateway]:
    """A gateway that does not run yet."""
    async with Simulator() as first, Simulator() as second:
        yield RoutedGateway(tmp_path, first, second)


async def test_a_new_file_holds_for_what_comes_from_now_on(routed: RoutedGateway) -> None:
    async with routed.run(FIRST):
        await routed.ask()
        routed.file.write_text(SECOND + '[models.other]\ntargets = ["first:gpt-5.5"]\n')
        routed.service.reload()
        assert (await routed.ask()).status == 200
        assert (await routed.ask(model="other")).status == 200
    assert (len(routed.first.requests), len(routed.second.requests)) == (2, 1)


async def test_a_broken_file_leaves_the_one_before_in_force(
    routed: RoutedGateway, caplog: pytest.LogCaptureFixture
) -> None:
    async with routed.run(FIRST):
        routed.file.write_text('[models.quick]\ntargets = ["nobody:x"]\nweigth = 3\n')
        with caplog.at_level(logging.ERROR):
            routed.service.reload()
        assert (await routed.ask()).status == 200
    [told] = [record.getMessage() for record in caplog.records]
    assert "the previous settings stay" in told
    assert "weigth" in told


async def test_what_is_known_of_a_target_outlives_the_file(routed: RoutedGateway) -> None:
    circuit = "circuit = { failures = 1, pause_seconds = 600 }\n"
    tables = FIRST + 'fallback = ["second:gpt-5.5"]\n' + circuit
    async with routed.run(tables):
        routed.first.switch("server_error=9")
        await routed.ask()
        routed.file.write_text(tables + "strict = true\n")
        routed.service.reload()
        await routed.ask()
    assert len(routed.first.requests) == 1


@pytest.mark.slow
async def test_a_signal_in_the_middle_of_many_requests_drops_none(routed: RoutedGateway) -> None:
    routed.file.write_text(FIRST, encoding="utf-8")
    service = routed.produce()
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    serving = asyncio.create_task(
        serve(
            service,
            ServerSettings(port=0),
            on_ready=lambda urls: ready.set_result(urls[0]),
            on_reload=lambda _: service.reload(),
        )
    )
    async with routed.reach(await ready):
        asking = [asyncio.create_task(routed.ask(stream=turn % 2 == 0)) for turn in range(60)]
        for turn in range(6):
            await asyncio.wait(asking[turn * 10 : turn * 10 + 5])
            routed.file.write_text(SECOND if turn % 2 == 0 else FIRST, encoding="utf-8")
            os.kill(os.getpid(), signal.SIGHUP)
            asking.append(asyncio.create_task(routed.ask()))
        heard = await asyncio.gather(*asking)
    os.kill(os.getpid(), signal.SIGTERM)
    await serving
    assert [each.status for each in heard] == [200] * 66
    assert routed.second.requests
    assert len(routed.first.requests) + len(routed.second.requests) == 66

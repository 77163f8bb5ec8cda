"""A command may be an asynchronous function: it has a loop of its own."""

from __future__ import annotations

import asyncio
import os
import signal

import click
import pytest

from vibe_llms.interfaces.cli.options import command


@command("wait")
@click.argument("word")
async def wait(word: str) -> int:
    """Waits for nothing."""
    await asyncio.sleep(0)
    if word == "wrong":
        raise click.UsageError("No such word.")
    if word == "stop":
        os.kill(os.getpid(), signal.SIGINT)
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            click.echo("cleaned up")
            raise
    assert click.get_current_context().command is wait
    return len(word)


def perform(word: str) -> object:
    """Performs it as `vibe` does."""
    with wait.make_context("wait", [word]) as context:
        return wait.invoke(context)


def test_it_is_performed_within_its_context_and_says_how_it_ended() -> None:
    """So whatever asks click where it stands is answered, and a mistake is told of the command."""
    assert perform("four") == 4
    assert wait.help == "Waits for nothing."
    with pytest.raises(click.UsageError) as caught:
        perform("wrong")
    assert caught.value.ctx is not None
    assert caught.value.ctx.command is wait


def test_ctrl_c_cancels_it(capsys: pytest.CaptureFixture[str]) -> None:
    """It cleans up, and the interrupt is told as that of any command."""
    with pytest.raises(KeyboardInterrupt):
        perform("stop")
    assert capsys.readouterr().out == "cleaned up\n"

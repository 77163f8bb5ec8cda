"""Ensemble of commands: one invoker, which requires an approval."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final

import attrs

from vibe_llms.invocables.invokers import Effect, Invoker, produce_invoker
from vibe_llms.invocables.outcomes import Outcome, fail
from vibe_llms.invocables.refusals import Refusal
from vibe_llms.invocables.shipped.granted import GrantedEnsemble
from vibe_llms.invocables.shipped.opening import open_directory
from vibe_llms.invocables.shipped.shell.command_execution import FinishedCommand, run_command
from vibe_llms.invocables.shipped.shell.settings import ShellSettings, produce_environment

CONCURRENCY: Final = 4
_COMMAND_CHARACTERS: Final = 100_000
_MARGIN_SECONDS: Final = 15.0
"""Extra time after a command's timeout before its execution is abandoned."""


class ShellEnsemble(GrantedEnsemble):
    """Commands for a model.

    Args:
        settings: Permitted directories, and limits.
    """

    settings_class = ShellSettings

    def __init__(self, settings: ShellSettings) -> None:
        super().__init__(settings.name, settings.produce_grants())
        self.settings = settings

    async def survey(self) -> Sequence[Invoker]:
        """Return the invoker."""
        invoker = produce_invoker(
            self.run_command,
            effect=Effect.ONCE,
            needs_approval=True,
            concurrency=CONCURRENCY,
            time_limit_seconds=self.settings.seconds + _MARGIN_SECONDS,
        )
        directories = ", ".join(str(grant.path) for grant in self._grants.grants)
        bounds = (
            f"A command may take {self.settings.seconds:g} seconds and starts in: {directories}."
        )
        return (attrs.evolve(invoker, description=f"{invoker.description} {bounds}"),)

    async def run_command(self, command: str, directory: str = ".") -> Outcome:
        """Run a command with /bin/sh and return its output, and its exit code unless 0. It has no
        input and no terminal; processes that it leaves running are ended with it.

        Args:
            command: The command line.
            directory: Its working directory; relative to the first of the directories, or absolute.
        """
        try:
            _ensure_command(command)
            with self._grants.walk(directory) as target, open_directory(target) as descriptor:
                finished = await run_command(
                    command,
                    descriptor,
                    produce_environment(os.environ, self.settings.variables),
                    seconds=self.settings.seconds,
                    output_bytes=self.settings.output_bytes,
                )
        except Refusal as refusal:
            return fail(str(refusal))
        except OSError as error:
            return fail(f"Cannot start the command: {error.strerror}.")
        return _compose(finished)


def _ensure_command(command: str) -> None:
    if not command.strip():
        raise Refusal("The command is empty.")
    if "\0" in command:
        raise Refusal("A command must not contain the character NUL.")
    if len(command) > _COMMAND_CHARACTERS:
        raise Refusal(
            f"A command has at most {_COMMAND_CHARACTERS} characters. Put more into a file."
        )
    try:
        command.encode("utf-8")
    except UnicodeEncodeError as error:
        raise Refusal(
            "The command contains an invalid character: half of a surrogate pair."
        ) from error


def _compose(finished: FinishedCommand) -> Outcome:
    text = finished.text
    if finished.fault:
        note = f"[the command {finished.fault} and was killed; it may have taken effect]"
        return fail(f"{text}\n{note}" if text else note)
    if finished.code < 0:
        note = "[the command's supervisor was killed; the command was killed as far as possible]"
        return fail(f"{text}\n{note}" if text else note)
    if finished.code:
        note = f"[exit code {finished.code}]"
        text = f"{text}\n{note}" if text else note
    return Outcome(contents=text or "[no output]")

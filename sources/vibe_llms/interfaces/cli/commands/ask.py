"""``vibe ask``: one question, one answer."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click

from vibe_llms.interfaces.cli.access import (
    load_application_and_address,
    resolve_first_word,
    restore_conversation,
)
from vibe_llms.interfaces.cli.options import (
    command,
    continue_option,
    json_option,
    model_options,
)
from vibe_llms.interfaces.cli.output import note, write_json
from vibe_llms.interfaces.cli.program import compose_command, is_option_value
from vibe_llms.interfaces.cli.tooling import (
    open_session,
    produce_session,
    skill_option,
    tool_options,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vibe_llms.conversations import Conversation, ConversationStore
    from vibe_llms.foundation.json_types import JsonObject
    from vibe_llms.interfaces.cli.chat.session import ChatSession
    from vibe_llms.interfaces.cli.chat.turns import TurnResult

_IDENTITY_LETTERS = 16


@command("ask")
@click.argument("prompt", nargs=-1)
@click.option(
    "--file",
    "-f",
    "files",
    multiple=True,
    type=click.Path(allow_dash=True),
    help="Attach a file: text, image, PDF, audio. Repeatable.",
)
@click.option("--schema", type=click.Path(), help="JSON Schema for the answer.")
@click.option("--save/--no-save", default=None, help="Store the conversation (the default).")
@continue_option
@json_option
@skill_option
@tool_options
@model_options
def ask(prompt: tuple[str, ...], save: bool | None, as_json: bool, **options: Any) -> None:
    """Ask one question and print the answer.

    PROMPT is the question; without it, the question is read from standard input. With both,
    standard input is a document that the question is about:

    \b
        vibe ask "What is the capital of Peru?"
        cat letter.txt | vibe ask "Summarize this letter."
        vibe ask -f photo.jpg "Who is in the picture?"
        vibe ask "And its largest port?" --continue

    With --continue and without a question, the model continues an answer that was cut off or
    interrupted.
    """
    words = list(prompt)
    if options["continued"] and not _may_be_identity(options["continued"]):
        # What follows --continue is not an id, but the start of the question.
        words.insert(0, options["continued"])
        options["continued"] = ""
    session = _produce_session(options, save=save is not False, words=words)
    text = _compose_question(session, " ".join(words), options)
    answer = _answer(session, text, options, as_json=as_json)
    if as_json:
        _write_answer(session, answer)
    else:
        _note_cut(session, answer)
        _note_identity(session, is_requested=save is True)
    if answer.waiting:
        from vibe_llms.interfaces.cli.chat.turns import describe_waiting

        sys.stdout.flush()
        raise describe_waiting(session, answer.waiting)
    if session.schema is not None:
        _check_conformity(answer.text, session.schema)


def _may_be_identity(text: str) -> bool:
    """Return whether a text may be an id or the prefix of one."""
    return text.isascii() and text.isalnum() and len(text) <= _IDENTITY_LETTERS


def _restore_conversation(
    store: ConversationStore, continued: str | None, words: Sequence[str]
) -> Conversation:
    """Return the conversation to continue.

    Errors also suggest the right command if what was taken for an id belongs to the question.
    """
    from vibe_llms.exceptions import UnknownConversationError

    # Without `=`, it is unclear whether the text after --continue is an id or the first word.
    if continued and words and not is_option_value("--continue", continued):
        continued = resolve_first_word(
            store,
            continued,
            compose_command("ask", " ".join((continued, *words)), "--continue"),
            lambda identity: compose_command("ask", " ".join(words), "--continue", identity),
        )
    try:
        return restore_conversation(store, continued)
    except UnknownConversationError as error:
        if not continued or words:
            raise
        command = compose_command("ask", continued, "--continue")
        raise UnknownConversationError(
            identity=continued, remedy=f"If that is your question, write it first: {command}"
        ) from error


def _produce_session(options: dict[str, Any], *, save: bool, words: Sequence[str]) -> ChatSession:
    application, address = load_application_and_address(options)
    return produce_session(
        application,
        _restore_conversation(application.store, options["continued"], words),
        address,
        options,
        store=application.store if save else None,
        schema=read_schema(options["schema"]),
    )


def read_schema(path: str | None) -> dict[str, Any] | None:
    """Read a JSON Schema from a file; ``None`` without a path. Raises UsageError."""
    if path is None:
        return None
    import json

    from vibe_llms.foundation.files import read_file

    try:
        raw = read_file(path)
        schema = json.loads(raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        from vibe_llms.foundation.encodings import explain_misencoding

        raise click.UsageError(explain_misencoding(raw, path)) from error
    except (OSError, ValueError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or error
        raise click.UsageError(f"Cannot read the schema {path}: {reason}.") from error
    if not isinstance(schema, dict):
        raise click.UsageError(f"The schema {path} is not an object.")
    _check_schema(schema, path)
    return schema


def _check_schema(schema: dict[str, Any], path: str) -> None:
    from jsonschema.exceptions import SchemaError
    from jsonschema.validators import validator_for

    try:
        validator_for(schema).check_schema(schema)
    except SchemaError as error:
        raise click.UsageError(
            f"Invalid JSON Schema {path} at {error.json_path}: {error.message}."
        ) from error
    except RecursionError as error:
        raise click.UsageError(f"The schema {path} nests too deeply.") from error


def _check_conformity(text: str, schema: JsonObject) -> None:
    """Raise an error if the answer does not conform: if it was cut off, for example."""
    import json

    from vibe_llms.exceptions import ConverseError, Stage
    from vibe_llms.invocables import produce_validator

    try:
        answer = json.loads(text)
    except (ValueError, RecursionError):
        reason = "it is not JSON"
    else:
        faults = produce_validator(schema, "the answer").check(answer)
        reason = "; ".join(str(fault).replace("arguments", "$", 1) for fault in faults)
    if reason:
        raise ConverseError(
            detail=f"The answer does not match the schema: {reason}.",
            remedy="Ask again; if it was cut off, raise -c max_tokens=N.",
            stage=Stage.DECODE,
        )


def _compose_question(session: ChatSession, text: str, options: dict[str, Any]) -> str:
    """Add the attachments and return the question; also read standard input if it is piped."""
    for path in options["files"]:
        session.attach(path)
    if not sys.stdin.isatty() and "-" not in options["files"]:
        text = _read_stdin(session, text)
    if not text.strip() and not session.attachments and not _is_continuable(session):
        empty = "" if sys.stdin.isatty() else ": standard input is empty"
        raise click.UsageError(f"The question is missing{empty}.")
    return text


def _is_continuable(session: ChatSession) -> bool:
    """Return whether the conversation can be continued without a question."""
    from vibe_llms.interfaces.cli.chat.statuses import ChatStatus

    return len(session.conversation) > 0 and session.status is not ChatStatus.FINISHED


def _read_stdin(session: ChatSession, text: str) -> str:
    """Read standard input: a document if there is a question, otherwise the question itself."""
    from vibe_llms.messages.canisters import DocumentCanister
    from vibe_llms.messages.views import text_of

    piped = session.attach("-")
    if not isinstance(piped, DocumentCanister):
        return text
    piped_text = text_of(piped).strip()
    if piped_text and text.strip():
        return text
    # Not a document, but the question, or empty, which is common in scripts.
    session.attachments.remove(piped)
    return text if text.strip() else piped_text


def _answer(
    session: ChatSession, text: str, options: dict[str, Any], *, as_json: bool
) -> TurnResult:
    import io

    from vibe_llms.interfaces.cli.chat.output import PlainOutput
    from vibe_llms.interfaces.cli.chat.turns import answer
    from vibe_llms.interfaces.cli.interrupts import run

    # Standard output contains only the JSON.
    output = PlainOutput(io.StringIO() if as_json else sys.stdout, sys.stderr)

    async def perform() -> TurnResult:
        async with session:
            await open_session(session, options, output)
            if text or session.attachments:
                await session.add_message(text)
            else:
                await session.prepare_continuation()
            return await answer(session, output)

    return run(perform())


def _note_cut(session: ChatSession, answer: TurnResult) -> None:
    """Report that the answer is incomplete, and how to continue it."""
    from vibe_llms.interfaces.cli.chat.statuses import ChatStatus

    if not answer.cut:
        return
    if session.store is not None and session.status is ChatStatus.CUT:
        command = compose_command("ask", "--continue", session.conversation.id)
        note(f"{answer.cut} Continue with: {command}")
    else:
        note(answer.cut)


def _note_identity(session: ChatSession, *, is_requested: bool) -> None:
    if session.store is not None and (is_requested or sys.stderr.isatty()):
        identity = session.conversation.id
        note(
            f"Kept as {identity}; continue with: {compose_command('chat', '--continue', identity)}"
        )


def _write_answer(session: ChatSession, answer: TurnResult) -> None:
    from vibe_llms.messages.codec.converter import produce_converter

    unstructure = produce_converter().unstructure
    write_json(
        {
            "conversation": session.conversation.id if session.store is not None else None,
            "text": answer.text,
            "cut": answer.cut or None,
            "origin": None if answer.origin is None else unstructure(answer.origin),
            "duration_seconds": answer.duration_seconds,
            "canisters": [unstructure(canister) for canister in answer.canisters],
            "losses": [str(loss) for loss in answer.losses],
            "waiting": [
                {"name": each.name, "arguments": each.arguments, "digest": each.digest}
                for each in answer.waiting
            ],
        }
    )

"""What a server may ask of us, in both eras, and who answers."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import attrs
import pytest
from mcp.client import Client
from mcp.shared.exceptions import MCPError

from support.mcp.asking_server import produce_server
from support.runs.approvers import DenyAll
from support.runs.scripting import produce_model
from vibe_llms.invocables.approvals import (
    Approval,
    ApprovalRequest,
    allow,
    edit,
)
from vibe_llms.invocables.mcp import Answers, ElicitationAnswer
from vibe_llms.invocables.mcp.client_answers import AnswerLimits
from vibe_llms.invocables.mcp.elicitation import (
    Action,
    FieldOption,
    Question,
    answer_address,
    read_fields,
)
from vibe_llms.messages.canisters import InvocationCanister, ResultCanister, SupervisorCanister
from vibe_llms.messages.requests import Request

ERAS = pytest.mark.parametrize("mode", ["legacy", "auto"])


@attrs.define(eq=False)
class Policy:
    """Answers requests for approval in turn, and keeps them; the last answer stays."""

    answers: list[Any] = attrs.field(factory=lambda: [allow])
    asked: list[ApprovalRequest] = attrs.field(factory=list)

    async def approve(self, request: ApprovalRequest) -> Approval:
        self.asked.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        approval: Approval = answer(request)
        return approval


@attrs.define(eq=False)
class Person:
    """Answers questions in turn, and keeps them."""

    answers: list[ElicitationAnswer]
    asked: list[Question] = attrs.field(factory=list)

    async def elicit(self, question: Question) -> ElicitationAnswer:
        self.asked.append(question)
        return self.answers.pop(0)


class Listening:
    """A model that plays a script and keeps what it was asked."""

    def __init__(self, *responses: dict[str, Any]) -> None:
        self._model = produce_model(*responses)
        self.requests: list[Request] = []
        self.descriptor = self._model.descriptor

    async def converse(self, request: Request, reactors: Any = None, **options: Any) -> Any:
        self.requests.append(request)
        return await self._model.converse(request, reactors, **options)


def said(text: str) -> dict[str, Any]:
    return {"contents": [{"text": text}]}


async def call(answers: Answers, mode: str, tool: str, **arguments: Any) -> str:
    """Calls a tool of the asking server; returns what it says, or why there is nothing."""
    async with Client(
        produce_server(), mode=mode, cache=None, **answers.produce_callbacks()
    ) as client:
        return await call_with(client, tool, **arguments)


async def call_with(client: Client, tool: str, **arguments: Any) -> str:
    try:
        result = await client.call_tool(tool, arguments)
    except MCPError as error:
        return f"error: {error}"
    text = "".join(block.text for block in result.content if block.type == "text")
    return f"error: {text}" if result.is_error else text


def produce_answers(**fields: Any) -> Answers:
    return Answers(**{"server": "curious", **fields})


@ERAS
async def test_a_model_answers_what_was_approved(mode: str) -> None:
    """Who approves sees all that the model will be asked."""
    model, policy = Listening(said("blue")), Policy()

    text = await call(
        produce_answers(model=model, approver=policy), mode, "ask_model", question="Colour?"
    )

    assert text == "test said blue (endTurn)"
    [asked] = policy.asked
    assert asked.name == "curious/sampling"
    assert json.loads(asked.arguments) == {
        "max_tokens": 100,
        "messages": [{"role": "user", "content": ["Colour?"]}],
        "system": "Be brief.",
    }
    [request] = model.requests
    assert isinstance(request.canisters[0], SupervisorCanister)
    assert request.controls == {"max_tokens": 100, "temperature": 0.5}


@ERAS
async def test_what_is_denied_is_not_asked(mode: str) -> None:
    """The server is told that the user declined, and no more."""
    model = Listening(said("blue"))

    text = await call(
        produce_answers(model=model, approver=DenyAll()), mode, "ask_model", question="Colour?"
    )

    assert text.startswith("error:")
    assert model.requests == []


@ERAS
async def test_tools_of_the_server_are_offered_to_the_model_and_called_by_the_server(
    mode: str,
) -> None:
    """The answer is the call; history with calls and results reads as ours."""
    call_again = {"invocation": {"id": "b", "name": "look", "arguments": '{"at": "hill"}'}}
    model = Listening({"contents": [{"text": "Again."}, call_again]})

    text = await call(
        produce_answers(model=model, approver=Policy()), mode, "ask_with_tools", question="Look"
    )

    assert text == "text look({'at': 'hill'}) toolUse"
    [request] = model.requests
    assert [type(each) for each in request.canisters[1:]] == [InvocationCanister, ResultCanister]
    assert [each.name for each in request.invocables] == ["look"]


@ERAS
async def test_whoever_approves_may_make_less_of_it(mode: str) -> None:
    """Fewer tokens and another instruction; but never more, and no other question."""
    model = Listening(said("blue"))

    def restrict(request: ApprovalRequest) -> Approval:
        said = json.loads(request.arguments)
        return edit(request, {**said, "max_tokens": 7, "system": "Be kind."})

    def enlarge(request: ApprovalRequest) -> Approval:
        return edit(request, {**json.loads(request.arguments), "max_tokens": 100_000})

    def replace(request: ApprovalRequest) -> Approval:
        return edit(request, {**json.loads(request.arguments), "messages": []})

    policy = Policy([restrict, enlarge, replace])
    answers = produce_answers(model=model, approver=policy)

    texts = [await call(answers, mode, "ask_model", question="Colour?") for _ in range(3)]

    assert texts[0] == texts[1] == "test said blue (endTurn)"
    assert texts[2].startswith("error:")
    assert [request.controls["max_tokens"] for request in model.requests] == [7, 100]
    assert "Be kind." in str(model.requests[0].canisters[0])


@ERAS
async def test_a_server_asks_a_model_for_so_many_tokens_and_so_often(mode: str) -> None:
    """Each limit by its name; a new connection begins to count anew."""
    model, policy = Listening(said("blue")), Policy()
    limits = AnswerLimits(sampling_tokens=10, sampling_requests=2)
    answers = produce_answers(model=model, approver=policy, limits=limits)

    async with Client(
        produce_server(), mode=mode, cache=None, **answers.produce_callbacks()
    ) as client:
        texts = [await call_with(client, "ask_model", question=str(n)) for n in range(3)]
    again = await call(answers, mode, "ask_model", question="3")

    assert [text.startswith("error:") for text in texts] == [False, False, True]
    assert not again.startswith("error:")
    assert all(request.controls["max_tokens"] == 10 for request in model.requests)
    assert len(policy.asked) == 3


@ERAS
async def test_a_server_asks_a_person_so_often(mode: str) -> None:
    """A person is not to be worn down."""
    person = Person([ElicitationAnswer(values={"name": "Ben"})] * 9)
    answers = produce_answers(elicitor=person, limits=AnswerLimits(elicitations=2))

    async with Client(
        produce_server(), mode=mode, cache=None, **answers.produce_callbacks()
    ) as client:
        texts = [await call_with(client, "ask_person", message=str(n)) for n in range(3)]

    assert [text.startswith("error:") for text in texts] == [False, False, True]
    assert len(person.asked) == 2


async def test_answers_that_lead_to_one_another_have_a_depth() -> None:
    """A model whose tools lead back to the server could go on for ever."""
    limits = AnswerLimits(sampling_depth=2)
    depths: list[str] = []

    class Recursive(Listening):
        async def converse(self, request: Request, reactors: Any = None, **options: Any) -> Any:
            depths.append(await call_with(client, "ask_model", question="deeper"))
            return await super().converse(request, reactors, **options)

    answers = produce_answers(model=Recursive(said("up")), approver=Policy(), limits=limits)
    async with Client(
        produce_server(), mode="legacy", cache=None, **answers.produce_callbacks()
    ) as client:
        await call_with(client, "ask_model", question="begin")

    assert len(depths) == 2
    assert depths[0].startswith("error:")


@ERAS
async def test_what_goes_wrong_with_the_model_is_not_the_servers_business(mode: str) -> None:
    """The vendor's words stay here."""
    model = Listening({"contents": [], "fault": {"kind": "overloaded"}})

    text = await call(
        produce_answers(model=model, approver=Policy()), mode, "ask_model", question="Colour?"
    )

    assert text.startswith("error:")
    assert "overloaded" not in text.lower()
    assert "scripted" not in text.lower()


async def test_nobody_waits_for_an_approval_without_end() -> None:
    """The person has gone."""

    class Absent:
        async def approve(self, request: ApprovalRequest) -> Approval:
            await asyncio.Event().wait()
            raise AssertionError

    answers = produce_answers(
        model=Listening(said("x")), approver=Absent(), limits=AnswerLimits(wait_seconds=0.01)
    )

    assert (await call(answers, "legacy", "ask_model", question="?")).startswith("error:")


@ERAS
async def test_a_person_fills_in_a_form_and_defaults_count(mode: str) -> None:
    """The question says which server asks, and what for."""
    person = Person([ElicitationAnswer(values={"name": "Ben"})])

    text = await call(produce_answers(elicitor=person), mode, "ask_person", message="Where?")

    assert text == "Ben hill 10"
    [question] = person.asked
    assert (question.server, question.message) == ("curious", "Where?")
    name, kind, height = question.fields
    assert (name.kind, name.is_required, name.description) == ("text", True, "of the place")
    assert (kind.kind, kind.choices) == (
        "choice",
        (FieldOption("sea", "sea"), FieldOption("hill", "hill")),
    )
    assert (height.kind, height.default) == ("integer", 10)


@ERAS
async def test_an_answer_that_does_not_fit_is_asked_for_again(mode: str) -> None:
    """With what is wrong; and not for ever."""
    short = ElicitationAnswer(values={"name": "B", "kind": "moon"})
    person = Person([short, ElicitationAnswer(values={"name": "Ben", "kind": "sea"})])
    stubborn = Person([short] * 3)

    text = await call(produce_answers(elicitor=person), mode, "ask_person", message="Where?")
    given_up = await call(produce_answers(elicitor=stubborn), mode, "ask_person", message="Hm?")

    assert text == "Ben sea 10"
    assert {fault.path for fault in person.asked[1].faults} == {
        "arguments.name",
        "arguments.kind",
    }
    assert given_up == "cancel"


@ERAS
async def test_what_was_answered_well_need_not_be_typed_again(mode: str) -> None:
    """It counts where nothing is said the next time."""
    first = ElicitationAnswer(values={"name": "B", "kind": "sea", "height": 7})
    person = Person([first, ElicitationAnswer(values={"name": "Ben"})])

    text = await call(produce_answers(elicitor=person), mode, "ask_person", message="Where?")

    assert text == "Ben sea 7"
    assert {field.name: field.default for field in person.asked[1].fields}["kind"] == "sea"


@pytest.mark.slow
@ERAS
@pytest.mark.parametrize("action", [Action.DECLINE, Action.CANCEL])
async def test_a_person_need_not_answer(mode: str, action: Action) -> None:
    """The server is told which of the two it was."""
    person = Person([ElicitationAnswer(action=action)])

    text = await call(produce_answers(elicitor=person), mode, "ask_person", message="Where?")

    assert text == action


@ERAS
async def test_where_nobody_can_be_asked_nothing_is_offered(mode: str) -> None:
    """The server knows before it asks."""
    answers = produce_answers(model=Listening(said("x")))  # and no approver

    assert answers.produce_callbacks() == {}
    for tool, arguments in (("ask_model", {"question": "?"}), ("ask_person", {"message": "?"})):
        assert (await call(answers, mode, tool, **arguments)).startswith("error:")


@ERAS
async def test_a_server_is_told_of_the_directories_that_are_granted(
    mode: str, tmp_path: Path
) -> None:
    """As addresses, with their names."""
    folder = tmp_path / "my notes"
    folder.mkdir()

    text = await call(produce_answers(roots=[folder]), mode, "ask_roots")

    assert text == f"my notes={folder.as_uri()}"


@pytest.mark.parametrize(
    "address",
    [
        "http://example.org/pay",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "https://",
        "https://a@b.org",
    ],
)
async def test_a_person_is_not_sent_where_it_is_not_safe(address: str) -> None:
    """Unencrypted, not an address of a page, or dressed up as another."""
    person = Person([ElicitationAnswer()])

    answer = await answer_address(person, "curious", "Please pay.", address)

    assert answer.action is Action.DECLINE
    assert person.asked == []


async def test_a_person_is_sent_to_a_page_and_no_values_come_of_it() -> None:
    """What they enter there is between them and the page."""
    person = Person([ElicitationAnswer(values={"card": "1234"})])

    answer = await answer_address(person, "curious", "Please pay.", "https://example.org/pay")

    assert answer == ElicitationAnswer()
    assert person.asked[0].address == "https://example.org/pay"


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array"},
        {"type": "object", "properties": {"a": {"type": "object", "properties": {}}}},
        {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "object"}}}},
        {"type": "object", "properties": {"a": True}},
        {"type": "object", "properties": {f"a{n}": {"type": "string"} for n in range(101)}},
    ],
)
def test_what_is_no_flat_form_is_refused(schema: dict[str, Any]) -> None:
    """A person could not fill it in."""
    with pytest.raises(ValueError, match=r"form|schema"):
        read_fields(schema)


def test_choices_are_read_however_they_are_written() -> None:
    """Plain, with names in a second list, and with titles; one of them or several."""
    titled = [{"const": "a", "title": "Alpha"}, {"const": "b"}]
    schema = {
        "type": "object",
        "properties": {
            "plain": {"type": "string", "enum": ["a", "b"]},
            "named": {"type": "string", "enum": ["a", "b"], "enumNames": ["Alpha", "b"]},
            "titled": {"type": "string", "oneOf": titled},
            "several": {"type": "array", "items": {"anyOf": titled}},
            "listed": {"type": "array", "items": {"type": "string", "enum": ["a", "b"]}},
        },
    }

    fields = {field.name: field for field in read_fields(schema)}

    alpha = (FieldOption("a", "Alpha"), FieldOption("b", "b"))
    assert (
        fields["plain"].choices
        == fields["listed"].choices
        == (FieldOption("a", "a"), FieldOption("b", "b"))
    )
    assert fields["named"].choices == fields["titled"].choices == alpha
    assert fields["several"] == attrs.evolve(
        fields["titled"], name="several", kind="choices", title="several"
    )


async def test_one_question_follows_the_other() -> None:
    """A person has one head, and a server may ask several things at once."""
    now, most = 0, 0

    class Busy:
        async def elicit(self, question: Question) -> ElicitationAnswer:
            nonlocal now, most
            now += 1
            most = max(most, now)
            await asyncio.sleep(0)
            now -= 1
            return ElicitationAnswer(values={"name": "Ben"})

    answers = produce_answers(elicitor=Busy())
    async with Client(
        produce_server(), mode="auto", cache=None, **answers.produce_callbacks()
    ) as client:
        await asyncio.gather(*(call_with(client, "ask_person", message="?") for _ in range(4)))

    assert most == 1

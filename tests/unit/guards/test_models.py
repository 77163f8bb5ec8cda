"""Guards of the configuration examine every request and answer of the models that they concern."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from support.guards.guarding import CARD, WordSpy, activate, produce_application
from support.runs.scripting import produce_model
from vibe_llms import Engine, Model, invocable
from vibe_llms.events.conversation import ConversationProgressEvent
from vibe_llms.events.reactors import ConversationReactors
from vibe_llms.exceptions import (
    CapabilityError,
    ConfigurationError,
    ConverseError,
    GuardError,
    ProviderError,
    TranslationLossError,
    UnknownNameError,
)
from vibe_llms.guards.guarding import guard
from vibe_llms.guards.models import GuardedModel
from vibe_llms.interfaces.cli.configuration_checks import survey_mistakes
from vibe_llms.invocables import InvocationContext, Registry, perform
from vibe_llms.invocables.ensembles import gather_ensembles
from vibe_llms.messages.canisters import InvocationCanister, ResultCanister, UserCanister
from vibe_llms.messages.contents import FileContent
from vibe_llms.messages.requests import Request

SECRETS = '[guards.privacy]\nkind = "secrets"\n'
ANSWER = {"contents": [{"text": f"Use {CARD} to pay."}]}


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("kind", [Model, Engine])
async def test_request_and_answer_are_marked_and_it_is_told(
    kind: Any, stream: bool, tmp_path: Path
) -> None:
    """The vendor receives the mark; the answer and its losses have no secret."""
    model = Model(application=produce_application(tmp_path, SECRETS))
    prompt = f"Is {CARD} my card?"

    if kind is Model:
        response: Any = await model.answer(prompt, stream=stream)
    else:
        response = await Engine(model, stream=stream).answer(prompt)

    assert response.text == "You said: Is [card number removed] my card?"
    reasons = [str(loss) for loss in response.losses]
    held = ["coerced stream: the guard 'privacy' holds back the last 64 characters"]
    assert reasons == [
        "coerced canisters[0].content[0].text: the guard 'privacy' replaced a card number by "
        "[card number removed]",
        *(held if stream else []),
    ]


@pytest.mark.parametrize("stream", [True, False])
async def test_an_answer_is_marked_for_reactors_and_callers(stream: bool, tmp_path: Path) -> None:
    application = produce_application(tmp_path, SECRETS, ANSWER)
    seen: list[Any] = []
    reactors = ConversationReactors(progress=seen.append, success=seen.append, updater=seen.append)

    response = await Model(application=application).answer(
        "How do I pay?", reactors=reactors, stream=stream
    )

    assert response.text == "Use [card number removed] to pay."
    pieces = [each.chunk for each in seen if isinstance(each, ConversationProgressEvent)]
    assert "".join(pieces) == response.text
    assert "4111" not in repr(seen) + repr(response.losses)


async def test_only_the_models_of_its_patterns_are_guarded(tmp_path: Path) -> None:
    application = produce_application(tmp_path, f'{SECRETS}models = ["openai:*"]')

    response = await Model(application=application).ask(CARD)

    assert response.text == f"You said: {CARD}"
    assert not isinstance(await application.access_model(), GuardedModel)


@pytest.mark.parametrize(
    ("lines", "text"),
    [
        ('parts = ["answer"]', f"You said: {CARD}"),
        ('parts = ["request"]', "You said: [card number removed]"),
        ("enabled = false", f"You said: {CARD}"),
    ],
)
async def test_a_table_chooses_what_is_examined(lines: str, text: str, tmp_path: Path) -> None:
    """An answer alone, whose request is not examined, is marked, too."""
    application = produce_application(tmp_path, SECRETS + lines)

    response = await Model(application=application).ask(CARD)

    marked = text.replace(CARD, "[card number removed]") if "answer" in lines else text
    assert response.text == marked


async def test_guards_follow_each_other(tmp_path: Path) -> None:
    """Each sees the changes of those before it."""
    tables = f'{SECRETS}[guards.list]\nkind = "words"\nwords = ["number"]\n'
    application = produce_application(tmp_path, tables)

    response = await Model(application=application).ask(f"{CARD}, a number")

    assert response.text == "You said: [card [word removed] removed], a [word removed]"


async def test_a_refusal_is_an_error_and_nothing_is_sent(tmp_path: Path) -> None:
    application = produce_application(tmp_path, f'{SECRETS}action = "refuse"')

    with pytest.raises(GuardError, match="'privacy' refused the request") as caught:
        await Model(application=application).ask(f"My card: {CARD}")

    assert (caught.value.guard, caught.value.part) == ("privacy", "request")
    assert "4111" not in str(caught.value)


async def test_a_strict_request_is_refused_rather_than_changed(tmp_path: Path) -> None:
    application = produce_application(tmp_path, SECRETS)

    with pytest.raises(TranslationLossError, match="replaced a card number"):
        await Model(application=application, strict=True).ask(f"My card: {CARD}")


@pytest.mark.parametrize(
    ("tables", "error", "words"),
    [
        ('[guards.x]\nkind = "secrets"\nfind = ["cars"]', ConfigurationError, "guards.x.find"),
        ('[guards.x]\nkind = "secrets"\nparts = ["all"]', ConfigurationError, "guards.x.parts"),
        ("[guards.x]\naction = 3", ConfigurationError, "'kind'"),
        ('[guards.x]\nkind = "words"\nwords = ["?"]', ConfigurationError, "no letter"),
        ('[guards.x]\nkind = "secret"', UnknownNameError, "secrets"),
    ],
)
async def test_no_model_is_used_without_its_guards(
    tables: str, error: type[Exception], words: str, tmp_path: Path
) -> None:
    """A mistake is an error with its place, not an unguarded model."""
    application = produce_application(tmp_path, tables)

    with pytest.raises(error, match=words) as caught:
        await Model(application=application).ask("Hi")

    if error is ConfigurationError:
        assert "config.toml:" in str(caught.value)


MISTAKES = '[guards.x]\nkind = "secrets"\nfind = [1]\n[guards.y]\nkind = "words"\nwords = []\n'
PLACES = [("guards.x.find", 4), ("guards.y.words", 7)]


def test_all_mistakes_are_reported_together(tmp_path: Path) -> None:
    """Those of all guards, with their lines."""
    with pytest.raises(ConfigurationError) as caught:
        _ = produce_application(tmp_path, MISTAKES).guards

    assert [(each.path, each.line) for each in caught.value.findings] == PLACES


@pytest.mark.slow
def test_the_check_of_the_configuration_finds_them(tmp_path: Path) -> None:
    findings = [*survey_mistakes(produce_application(tmp_path, MISTAKES))]

    assert [(each.path, each.line) for each in findings if "guards" in each.path] == PLACES


async def test_a_guarded_model_is_used_from_then_on(tmp_path: Path) -> None:
    """Guards are made once; the fast path finds the same model."""
    application = produce_application(tmp_path, SECRETS)

    model = await application.access_model()

    assert isinstance(model, GuardedModel)
    assert await application.access_model() is model
    assert application.find_model("", application) is model
    assert application.guards is application.guards
    assert await application._access_unguarded("converser", "") is model.unguarded


async def test_without_guards_nothing_is_loaded(tmp_path: Path) -> None:
    application = produce_application(tmp_path, "")

    assert application.guards == ()
    assert await application.access_argument_guard() is None
    assert not isinstance(await application.access_model(), GuardedModel)


class TestGuardedModel:
    """A wrapped model keeps the promises of a model."""

    async def test_all_texts_of_a_conversation_are_examined(self) -> None:
        """Those of files, calls and results too; and none twice."""
        spy = WordSpy()
        model = guard(produce_model({"contents": [{"text": "ok"}]}), "converser", [activate(spy)])
        call = InvocationCanister(invocation_id="1", name="go", arguments='{"a": "walnut"}')
        file = FileContent(data=b"a walnut tree", mime_type="text/plain", name="trees.txt")
        request = Request(
            canisters=[
                UserCanister(["walnut one", file]),
                call,
                ResultCanister("walnut two", invocation_id="1"),
            ]
        )

        await model.converse(request)

        assert sorted(spy.seen[0].texts) == sorted(
            ["walnut one", "trees.txt", "a walnut tree", "a", "walnut", "walnut two"]
        )
        sent = spy.seen[-1].request
        assert sent is not None
        assert "walnut" not in repr(sent.canisters)
        assert sent.canisters[0].content[1].data == b"a [nut] tree"
        assert sent.canisters[1].parse_arguments() == {"a": "[nut]"}
        assert [each.id for each in sent.canisters] == [each.id for each in request.canisters]

    async def test_what_is_not_changed_stays_the_same_object(self) -> None:
        """So that translations of earlier turns are reused."""
        spy = WordSpy()
        model = guard(produce_model({"contents": [{"text": "ok"}]}), "converser", [activate(spy)])
        request = Request(canisters=[UserCanister("plain"), UserCanister("walnut")])

        response = await model.converse(request)

        assert response.request.canisters[0] is request.canisters[0]
        assert response.request.canisters[1].text == "[nut]"

    @pytest.mark.parametrize("window", [4, None])
    async def test_of_a_failed_answer_the_received_part_is_kept(self, window: int | None) -> None:
        script = {
            "contents": [{"text": "All is well here, and so on"}],
            "fault": {"at_chunk": 3, "kind": "overloaded"},
        }
        model = guard(produce_model(script), "converser", [activate(WordSpy(window=window))])

        with pytest.raises(ProviderError) as caught:
            await model.converse(Request(canisters=[UserCanister("Hi")]))

        assert [each.text for each in caught.value.arrived] == ["All is well her"]

    async def test_a_refused_answer_arrives_without_its_secret(self) -> None:
        script = {"contents": [{"text": "All is well, but a walnut fell."}]}
        spy = WordSpy(window=8, refuses=True)
        model = guard(produce_model(script), "converser", [activate(spy, "answer")])

        with pytest.raises(GuardError, match="refused the answer") as caught:
            await model.converse(Request(canisters=[UserCanister("Hi")]))

        assert "walnut" not in repr(caught.value.arrived)

    async def test_a_stream_can_be_left_at_any_time(self) -> None:
        script = {"contents": [{"text": "All is well. " * 20}], "delay_seconds": 0.001}
        model = guard(produce_model(script), "converser", [activate(WordSpy())])

        async with model.stream(Request(canisters=[UserCanister("Hi")])) as stream:
            async for piece in stream.text:
                assert piece
                break

        assert stream.canisters[0].text.startswith("All")

    async def test_a_request_is_examined_before_a_vendor_counts_it(self) -> None:
        spy = WordSpy()
        model = guard(produce_model({"contents": [{"text": "ok"}]}), "converser", [activate(spy)])
        request = Request(canisters=[UserCanister("a walnut")])

        count = await model.tokenizer.count_request(request, model.descriptor)

        assert [each.part for each in spy.seen] == ["request"]
        assert count.tokens

    def test_a_vendors_batch_is_refused_in_words(self) -> None:
        model: Any = guard(produce_model({}), "converser", [activate(WordSpy())])

        with pytest.raises(CapabilityError, match="Guards examine the requests of scripted:test"):
            model.produce_batches()

    async def test_an_error_of_the_guard_has_no_text(self) -> None:
        class Clumsy:
            window = None

            async def examine(self, inspection: Any) -> Any:
                raise ValueError(inspection.texts)

        model = guard(
            produce_model({"contents": [{"text": "ok"}]}), "converser", [activate(Clumsy())]
        )

        with pytest.raises(ConverseError, match="ValueError in its code") as caught:
            await model.converse(Request(canisters=[UserCanister("a walnut")]))

        assert "walnut" not in str(caught.value)
        assert caught.value.__cause__ is None


async def test_without_guards_no_code_of_theirs_runs(tmp_path: Path) -> None:
    """Neither for an answer nor for a call of a tool."""
    application = produce_application(tmp_path, "")
    model = Model(application=application)
    await model.ask("warm")
    calls: list[str] = []

    def note(frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and "/vibe_llms/guards/" in frame.f_code.co_filename:
            calls.append(frame.f_code.co_name)

    @invocable
    def nod() -> str:
        """Nod."""
        return "ok"

    async with Registry(gather_ensembles([nod])) as registry:
        sys.setprofile(note)
        try:
            await model.ask("Hi")
            outcome = await perform(registry.access("nod"), {}, InvocationContext())
        finally:
            sys.setprofile(None)

    assert not outcome.is_error
    assert calls == []


@pytest.mark.parametrize(
    ("setting", "problem"),
    [
        ("models = []", "The list is empty"),
        ("parts = []", "The list is empty"),
        ("find = []", "The list is empty"),
        ('models = ["openai", "*"]', "'openai' matches no address; write 'openai:*'"),
        ('models = [""]', "'' matches no address; write '*'"),
    ],
)
def test_a_guard_that_never_applies_is_a_mistake(
    setting: str, problem: str, tmp_path: Path
) -> None:
    application = produce_application(tmp_path, SECRETS + setting)

    (finding,) = survey_mistakes(application)

    assert problem in finding.message
    with pytest.raises(ConfigurationError, match=r"is empty|matches no address"):
        _ = application.guards


def test_a_pattern_may_match_the_names_of_models(tmp_path: Path) -> None:
    application = produce_application(tmp_path, SECRETS + 'models = ["*", "*gpt*", "open*:*"]')

    assert not [*survey_mistakes(application)]

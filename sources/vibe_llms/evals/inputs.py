"""Inputs of cases: rendered prompts, files, and conversations of kept runs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from vibe_llms.conversations.canister_media import hydrate
from vibe_llms.conversations.stores.directory import DirectoryStore
from vibe_llms.evals.suites import EvalCase, EvalSubject, Suite
from vibe_llms.exceptions import ConfigurationError, Finding
from vibe_llms.flows.records import find_record
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.json_types import JsonValue
from vibe_llms.instruments.attachments import read_attachment
from vibe_llms.instruments.prompts.prompt import Prompt
from vibe_llms.messages.canisters import (
    AnyCanister,
    DocumentCanister,
    SupervisorCanister,
    UserCanister,
)
from vibe_llms.messages.contents import AnyContent, TextualContent
from vibe_llms.messages.texts import BOUNDARY
from vibe_llms.messages.views import describe_contents

_TEMPLATE: Final = re.compile(r"\{[{%#]")


@frozen(kw_only=True)
class PreparedCase:
    """Case as a subject will be asked about it.

    Attributes:
        case: The case.
        key: Digest of all that is sent.
        value: Canisters for a model, or variables for a task.
        prompt: What the subject is asked, as text for judges.
        dollars: Approximate cost of an answer; ``None`` if it is unknown.
    """

    case: EvalCase
    key: str
    value: Any
    prompt: str
    dollars: Decimal | None = None


def compose_input(
    suite: Suite, subject: EvalSubject, case: EvalCase, *, limit_bytes: float
) -> tuple[AnyCanister, ...]:
    """Compose the canisters that a model is sent for a case. Does file work.

    Args:
        limit_bytes: Maximum size of a file.

    Raises:
        ConfigurationError: The prompt cannot be rendered, or the run cannot be sent to a model.
        ConverseError: A file or a run cannot be read.
    """
    system = next(
        (each for each in (case.system, subject.system) if each is not None), suite.system
    )
    if case.run is not None:
        canisters = _read_question(case.run, case)
        if not system:
            return canisters
        others = [each for each in canisters if not isinstance(each, SupervisorCanister)]
        return (SupervisorCanister(system), *others)
    prompt = render_prompt(suite, case)
    attachments = [read_attachment(str(path), limit_bytes=limit_bytes) for path in case.files]
    documents = [each for each in attachments if isinstance(each, DocumentCanister)]
    media: list[AnyContent] = [
        each for each in attachments if not isinstance(each, DocumentCanister)
    ]
    question = UserCanister([*media, TextualContent(prompt)] if media else prompt)
    supervisors = [SupervisorCanister(system)] if system else []
    return (*supervisors, *documents, question)


def describe_question(canisters: Sequence[AnyCanister]) -> str:
    """Return the last message of the user as text; media by their names."""
    questions = [each for each in canisters if isinstance(each, UserCanister)]
    if not questions:
        return ""
    texts = [text for _, text in describe_contents(questions[-1])]
    return questions[-1].text or BOUNDARY.join(texts)


def render_prompt(suite: Suite, case: EvalCase) -> str:
    """Render the prompt of a case; empty for a kept run, which has its own messages.

    Raises:
        ConfigurationError: The template is invalid, or lacks a variable.
    """
    text = case.prompt or ("" if case.run is not None else suite.prompt)
    if not _TEMPLATE.search(text):
        return text
    prompt = _read_prompt(text)
    missing = sorted(prompt.required - case.variables.keys())
    if missing:
        names = ", ".join(map(repr, missing))
        raise _refuse(case, f"Its prompt needs the variables {names}. Add them to `variables`.")
    values = {name: value for name, value in case.variables.items() if name in prompt.variables}
    return prompt.render(**values)


@lru_cache(1024)
def _read_prompt(text: str) -> Prompt:
    return Prompt(text, name="prompt")


def find_variables(case: EvalCase) -> Mapping[str, JsonValue]:
    """Return the variables with which a task runs for a case. Does file work.

    Raises:
        ConfigurationError: The kept run is not that of a flow.
        ConverseError: It cannot be read.
    """
    if case.run is None:
        return case.variables
    store, identity = _open_run(case.run, case)
    record = find_record(store, identity)
    if record is None:
        raise _refuse(case, f"{case.run} is a conversation, which a task cannot answer.")
    return {**record.started.variables, **case.variables}


def _read_question(folder: Path, case: EvalCase) -> tuple[AnyCanister, ...]:
    """Return the conversation of a kept run up to the last message of its user."""
    store, identity = _open_run(folder, case)
    if find_record(store, identity) is not None:
        raise _refuse(case, f"{folder} is the run of a flow, which a model cannot answer.")
    canisters = store.read(identity).canisters
    for index in range(len(canisters), 0, -1):
        if isinstance(canisters[index - 1], UserCanister):
            return hydrate(canisters[:index], store.contents)
    raise _refuse(case, f"{folder} has no message of a user.")


def _open_run(folder: Path, case: EvalCase) -> tuple[DirectoryStore, str]:
    """Open the store of a kept run; return it with the id of the run."""
    try:
        is_folder = folder.is_dir()
    except OSError as error:
        raise _refuse(case, f"Cannot read the run {folder}: {error.strerror}.") from error
    if not is_folder:
        raise _refuse(case, f"The run {folder} does not exist. `vibe runs keep` writes runs.")
    store = DirectoryStore(folder)
    identities = list(store.survey())
    for identity in identities:
        if folder.name.endswith(identity.replace("-", "_")):
            return store, identity
    if len(identities) == 1:
        return store, identities[0]
    raise _refuse(case, f"{folder} is not a run that `vibe runs keep` has written.")


def _refuse(case: EvalCase, message: str) -> ConfigurationError:
    return ConfigurationError(findings=(Finding(place=f"case {case.name}", message=message),))

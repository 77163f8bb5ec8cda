"""Compaction: continue a conversation in a fork that begins with a summary of its oldest turns.

The parent keeps every message. The summary in the fork names the part of the parent that it
replaces, so that the whole conversation can be read back through all parents.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from datetime import datetime
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

from vibe_llms.conversations.metadata import ParentLink
from vibe_llms.conversations.stores.interfaces import ConversationStore, History
from vibe_llms.exceptions import (
    ContextOverflowError,
    ConverseError,
    Finding,
    RequestError,
    UnknownConversationError,
    access_facts,
)
from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.messages.canisters import AnyCanister, DocumentCanister, SummarizedPart
from vibe_llms.messages.requests import Request
from vibe_llms.models.attributes import ModelAttributes
from vibe_llms.models.counting import MESSAGE_OVERHEAD, PRIMING_OVERHEAD, count_canister
from vibe_llms.models.descriptors import ModelDescriptor
from vibe_llms.models.windows import (
    Cut,
    find_cut_points,
    measure_canisters,
    measure_room,
    surely_fits,
    survey_turn_cuts,
)
from vibe_llms.providers.interfaces import ConverserModel
from vibe_llms.providers.summaries import Ask, is_summary, measure_summary, summarize

if TYPE_CHECKING:
    from vibe_llms.conversations.conversation import Conversation

DEFAULT_KEEP: Final = 4
"""Number of turns that a compaction keeps word for word, unless the conversation says otherwise."""


async def compact(
    conversation: Conversation,
    request: Request,
    model: ConverserModel,
    ask: Ask,
    *,
    keep: int | None = None,
) -> Conversation:
    """Return a fork of a conversation that begins with a summary of its oldest turns.

    The fork is not saved.

    Args:
        request: A request with the whole conversation, and with the tools and controls of the
            next turn.
        model: The model whose window the fork must fit.
        ask: Asks the model for the summary.
        keep: Number of last turns to keep word for word, if they fit.

    Raises:
        RequestError: There is nothing to summarize.
        ConverseError: The model did not summarize it; the conversation is unchanged.
    """
    plan = plan_compaction(conversation, request, model, keep=keep)
    if plan is None:
        raise RequestError(
            detail="There is nothing to summarize yet.", remedy="/new starts a new conversation."
        )
    return conversation.fork_compacted(await plan.perform(ask))


async def make_room(
    conversation: Conversation, request: Request, model: ConverserModel, ask: Ask
) -> Conversation:
    """Return a compacted fork if a conversation has reached the model's window, or else itself.

    Does nothing unless the request's ``window`` is ``summarize``; a strict request refuses to lose
    anything. Takes the arguments of :func:`compact`.

    Raises:
        ConverseError: The model did not summarize it; the conversation is unchanged.
    """
    if not is_full(request, model.descriptor.attributes):
        return conversation
    plan = plan_compaction(conversation, request, model)
    return conversation if plan is None else conversation.fork_compacted(await plan.perform(ask))


def is_full(request: Request, attributes: ModelAttributes) -> bool:
    """Return whether a conversation is to be compacted before a request is sent."""
    if request.window != "summarize" or request.strict:
        return False
    return reaches_window(request, attributes)


@frozen(kw_only=True)
class CompactionPlan:
    """Plan of a compaction: the part of a conversation that a summary will replace.

    Attributes:
        request: A request with the whole conversation.
        descriptor: The model that writes the summary.
        cut: The canisters to replace.
        room: Tokens of input for which the model's window has room; ``None`` if unknown.
        conversation_id: Id of the conversation.
    """

    request: Request
    descriptor: ModelDescriptor
    cut: Cut
    room: int | None
    conversation_id: str

    async def perform(self, ask: Ask) -> list[AnyCanister]:
        """Return the canisters of the fork. Raises ConverseError if there is no summary."""
        canisters, cut = self.request.canisters, self.cut
        replaced = [canisters[index] for index in cut.omitted]
        try:
            summary = await summarize(ask, self.descriptor, self.request, replaced, room=self.room)
        except ConverseError as error:
            raise _explain(error) from error
        document = summary.produce_document(replaced, self.conversation_id, room=self.room)
        kept, start = cut.keep(canisters), cut.omitted[-1] + 1 - len(cut.omitted)
        # After what stays of the replaced part, and before the last turns; not before a call's
        # result.
        can_insert_before = find_cut_points(kept)
        while not can_insert_before[start]:
            start -= 1
        return [*kept[:start], document, *kept[start:]]


def plan_compaction(
    conversation: Conversation,
    request: Request,
    model: ConverserModel,
    *,
    keep: int | None = None,
) -> CompactionPlan | None:
    """Choose the canisters that a summary replaces; ``None`` if there is nothing to summarize."""
    metadata, descriptor = conversation.metadata, model.descriptor
    if keep is None:
        keep = DEFAULT_KEEP if metadata.keep is None else metadata.keep
    room = _measure_room(request, descriptor.attributes)
    cut = _choose_cut(request, descriptor.attributes, room, keep, metadata.pinned)
    if not cut.omitted:
        return None
    return CompactionPlan(
        request=request,
        descriptor=descriptor,
        cut=cut,
        room=room,
        conversation_id=conversation.id,
    )


def reaches_window(request: Request, attributes: ModelAttributes) -> bool:
    """Return whether a request exceeds the model's window, by estimates and reported usage."""
    room = _measure_room(request, attributes)
    if room is None or surely_fits(request, attributes, room):
        return False
    sizes, overhead = measure_canisters(request, attributes)
    estimated = overhead + sum(sizes)
    return max(estimated, _count_reported(request.canisters, attributes)) > room


def _count_reported(canisters: Sequence[AnyCanister], attributes: ModelAttributes) -> int:
    """Return the tokens that the model reported for the last answer, and at most those after it.

    After it are the mark that ends the answer, newer messages, and the marks that begin the next
    answer. Answers before a summary were given to a longer conversation, and do not count.
    """
    marks = MESSAGE_OVERHEAD + PRIMING_OVERHEAD
    newer = marks.tokens + marks.error_tokens
    begin = _find_compaction_time(canisters)
    for canister in reversed(canisters):
        origin = canister.origin
        if origin is None or origin.usage is None:
            size = count_canister(canister, attributes)
            newer += size.tokens + size.error_tokens
            continue
        if begin is not None and canister.timestamp <= begin:
            return 0
        usage = origin.usage
        return newer + (usage.total_input_tokens or 0) + (usage.total_output_tokens or 0)
    return 0


def _find_compaction_time(canisters: Sequence[AnyCanister]) -> datetime | None:
    return max((each.timestamp for each in canisters if is_summary(each)), default=None)


def _measure_room(request: Request, attributes: ModelAttributes) -> int | None:
    controls = {**attributes.control_defaults, **request.controls}
    return measure_room(attributes, controls)[0]


def _choose_cut(
    request: Request,
    attributes: ModelAttributes,
    room: int | None,
    keep: int,
    pinned: Sequence[str],
) -> Cut:
    """Choose the canisters to summarize: keep fewer turns if the rest would fill half of the room.

    The cut is empty if there is nothing to summarize except an earlier summary.
    """
    canisters = request.canisters
    sizes, overhead = measure_canisters(request, attributes)
    total = sum(sizes) + overhead + measure_summary(room)
    removable, lengths = survey_turn_cuts(canisters, keep, pinned)
    freed = [0, *accumulate(sizes[index] for index in removable)]
    new = (number for number, i in enumerate(removable) if not is_summary(canisters[i]))
    first_new = next(new, len(removable))
    chosen = 0
    for length in lengths:
        if length <= first_new:
            continue
        chosen = length
        if room is None or total - freed[length] <= room // 2:
            break
    return Cut(omitted=removable[:chosen])


def _explain(error: ConverseError) -> ConverseError:
    """Return the error of the call that should have written the summary, with its consequence."""
    facts: dict[str, Any] = access_facts(error)
    reason = error.detail or error.describe()
    facts["detail"] = f"The conversation could not be summarized and is unchanged: {reason}"
    if isinstance(error, ContextOverflowError) and error.remedy == ContextOverflowError.remedy:
        facts["remedy"] = (
            'Start a new conversation, set window = "drop", or use a model with a larger window.'
        )
    return type(error)(**facts)


def find_summary(canisters: Sequence[AnyCanister]) -> DocumentCanister | None:
    """Return the last summary of a conversation that was compacted; ``None`` without one."""
    for canister in reversed(canisters):
        if isinstance(canister, DocumentCanister) and canister.summarizes is not None:
            return canister
    return None


def read_whole(
    store: ConversationStore, history: History
) -> tuple[list[AnyCanister], list[Finding]]:
    """Read a compacted conversation as if it had never been compacted, through all its parents.

    Summaries are included, each at the place at which it was made.

    Returns:
        The canisters, oldest first, and findings about parents that cannot be read.
    """
    parts = [history]
    summaries: list[DocumentCanister] = []
    findings: list[Finding] = []
    seen = {history.identity}
    while (summary := find_summary(parts[-1].canisters)) is not None:
        part = summary.summarizes
        if part is None or part.conversation in seen:
            break
        seen.add(part.conversation)
        parent, problems = _read_parent(store, parts[-1], part, seen)
        findings += problems
        if parent is None:
            break
        seen.add(parent.identity)
        summaries.append(summary)
        findings += parent.notices
        parts.append(parent)
    whole = list(parts.pop().canisters)
    while parts:
        _join(whole, parts.pop().canisters, summaries.pop())
    return whole, findings


def _read_parent(
    store: ConversationStore, history: History, part: SummarizedPart, seen: Container[str]
) -> tuple[History | None, list[Finding]]:
    """Return the conversation that has a summarized part, and a finding unless it is complete.

    After a synchronization of two endings, another conversation of the family may have the part.
    """
    parent: History | None = None
    for identity in _survey_holders(store, history, part.conversation):
        if identity in seen and identity != part.conversation:
            continue
        try:
            read = store.read(identity, tolerant=True)
        except UnknownConversationError:
            continue
        if {part.first, part.last} <= {canister.id for canister in read.canisters}:
            return read, []
        if identity == part.conversation:
            parent = read
    message = "This parent was deleted, with the messages that its summary replaces."
    if parent is not None:
        message = "This parent lacks some of the messages that its summary replaces."
    return parent, [Finding(place=part.conversation, message=message)]


def _survey_holders(store: ConversationStore, history: History, conversation: str) -> Iterator[str]:
    """Yield the ids of conversations that may have a part: the named one, and its family."""
    yield conversation
    family, link = {conversation}, history.metadata.parent
    while link is not None and link.identity not in family:
        family.add(link.identity)
        yield link.identity
        link = _read_link(store, link.identity)
    for identity in store.survey():
        link = None if identity in family else _read_link(store, identity)
        if link is not None and link.identity in family:
            yield identity


def _read_link(store: ConversationStore, identity: str) -> ParentLink | None:
    try:
        return store.read_metadata(identity).parent
    except UnknownConversationError:
        return None


def _join(
    whole: list[AnyCanister], canisters: Sequence[AnyCanister], summary: DocumentCanister
) -> None:
    """Append to the whole of a parent what a compacted fork adds to it.

    Messages that the parent received after the compaction are not part of the fork.
    """
    assert summary.summarizes is not None
    places = {canister.id: index for index, canister in enumerate(whole)}
    known = [summary.summarizes.last, *(canister.id for canister in canisters)]
    end = 1 + max((places[each] for each in known if each in places), default=len(whole) - 1)
    del whole[end:]
    whole.append(summary)
    whole += [each for each in canisters if each.id not in places and each.id != summary.id]

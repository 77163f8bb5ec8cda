"""Every hook that a plugin can implement, and what the hooks return.

A plugin is a module that the configuration names. It implements hooks as plain functions
that carry the mark :data:`vibe_llms.plugins.markers.hook`; it registers nothing, and being
imported has no effect beyond defining them. Hooks return *specifications*: small frozen
values with a name and, where something is to be made, a factory. So asking a plugin what it
has is cheap, and what it has is made only when somebody uses it. No hook runs per token.

A plugin that raises, or returns something else than is written here, is named and set aside;
all other plugins go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import attrs

from vibe_llms.clocks import Clock
from vibe_llms.limits import Limits
from vibe_llms.plugins.markers import hookspec
from vibe_llms.secrets import Settings

ANY_NAME: Final = "*"
"""The name of a specification whose factory makes what it makes under any configured name."""

if TYPE_CHECKING:  # types only: this module lies below those that it speaks of
    from vibe_llms.conversations.conversation import Conversation
    from vibe_llms.conversations.exchange.interfaces import Exportable
    from vibe_llms.conversations.stores.interfaces import ContentStore
    from vibe_llms.engine.contexts import RunEvent
    from vibe_llms.events.reactors import ConversationReactors
    from vibe_llms.invocables.approvals import DeferringApprover
    from vibe_llms.invocables.ensembles import Ensemble
    from vibe_llms.messages.losses import Translation
    from vibe_llms.providers.interfaces import Provider
    from vibe_llms.wire.exchanges import Timeouts, Transport


class Consent(Protocol):
    """Asks the user before code is fetched, installed or trusted, or much is downloaded."""

    def ask(self, subject: str, question: str) -> bool:
        """Returns whether the user agrees.

        Without a user to ask, the answer is no, unless the user has answered in advance
        (the setting ``yes``). The call may block for as long as the user thinks.

        Args:
            subject: A stable word for what is asked about, such as ``weights:smollm2``: the
                same question has the same subject.
            question: One or two sentences which say what would happen, from where, and how
                large it is; they end in a question mark.
        """
        ...


class Progress(Protocol):
    """Shows how far long work has come. One piece of work at a time, from one thread."""

    def start(self, total: int | None, label: str) -> None:
        """Begins to show a piece of work.

        Args:
            total: How much there is to do, in bytes for a transfer; ``None`` if unknown.
            label: What is being done, in a few words.
        """
        ...

    def advance(self, amount: int) -> None:
        """Adds to what is done, in the unit of the total."""
        ...

    def finish(self) -> None:
        """Ends the showing, also when the work failed; always called after ``start``."""
        ...


@attrs.frozen(kw_only=True)
class ProviderContext:
    """What a provider is given when it is made.

    Attributes:
        name: Its name, as configured.
        settings: The keys of its table in the configuration besides ``module``, ``package``
            and ``enabled``: plain TOML values. The provider checks them.
        data_directory: A directory of its own for what must last. It may not exist yet.
        cache_directory: A directory of its own for what may vanish at any time. It may not
            exist yet.
        consent: To be asked before anything is fetched or installed.
        progress: To be told about work that takes longer than a second.
        limits: Bound what may wait or grow; hand them to the models.
        clock: For whatever waits.
        produce_attributes: Gives the integrator of model attributes for this provider: its
            own data, the specifications of :func:`survey_model_attributes` for its name, and
            the user's overrides.
        survey_transports: Names the transports that plugins have (:func:`survey_transports`);
            loads them, so it is called only where a transport is chosen that does not ship.
    """

    name: str
    settings: Mapping[str, Any] = attrs.field(factory=dict, converter=Settings)
    data_directory: Path
    cache_directory: Path
    consent: Consent
    progress: Progress
    limits: Limits = attrs.field(factory=Limits)
    clock: Clock = attrs.field(factory=Clock)
    produce_attributes: Callable[[], Any]
    survey_transports: Callable[[], Sequence[TransportSpecification]] = tuple


@attrs.frozen
class ProviderSpecification:
    """A provider that a plugin has.

    Attributes:
        name: What the user calls it: the ``NAME`` of ``[providers.NAME]`` and of
            ``NAME:model``. It must be the name under which the configuration names the
            plugin's module; :data:`ANY_NAME` stands for all such names, and the factory reads
            the one that is meant from its context.
        summary: What it is, in one line for ``vibe providers``.
        factory: Makes the provider from its context. Called once per plugin manager, when
            the provider is first used. Heavy libraries are imported in here or later.
    """

    name: str
    summary: str
    factory: Callable[[ProviderContext], Provider]


@attrs.frozen(kw_only=True)
class EnsembleContext:
    """What an ensemble is given when it is made.

    Attributes:
        name: Its name, as configured.
        settings: The keys of its table in the configuration besides ``module``, ``package``
            and ``enabled``: plain TOML values. The ensemble checks them.
        working_directory: Where relative paths in the settings begin.
        data_directory: A directory of its own for what must last. It may not exist yet.
        cache_directory: A directory of its own for what may vanish at any time. It may not
            exist yet.
        consent: To be asked before anything is fetched or installed.
        progress: To be told about work that takes longer than a second.
        limits: Bound what may wait or grow.
    """

    name: str
    settings: Mapping[str, Any] = attrs.field(factory=dict, converter=Settings)
    working_directory: Path
    data_directory: Path
    cache_directory: Path
    consent: Consent
    progress: Progress
    limits: Limits = attrs.field(factory=Limits)


@attrs.frozen
class EnsembleSpecification:
    """An ensemble that a plugin has.

    Attributes:
        name: What the user calls it: the ``NAME`` of ``[ensembles.NAME]``. It must be the name
            under which the configuration names the plugin's module; :data:`ANY_NAME` stands
            for all such names, and the factory reads the one that is meant from its context.
        summary: What it lets a model do, in one line.
        factory: Makes the ensemble from its context. Called each time the ensemble is wanted,
            as an ensemble has one life. It opens nothing yet: ``connect`` does. Heavy libraries
            are imported in here or later.
    """

    name: str
    summary: str
    factory: Callable[[EnsembleContext], Ensemble]


@attrs.frozen
class ModelAttributesSpecification:
    """A directory of TOML files that describe the models of a provider.

    Attributes:
        provider: Whose models are described. :data:`ANY_NAME` stands for all names under which
            the plugin's module is configured and of which nothing else is known.
        directory: Holds ``attributes.toml`` and, where there are any, ``model-families/``
            and ``models/``, as the folders of ``data/providers`` do.
    """

    provider: str
    directory: Path


@attrs.frozen
class ReactorsSpecification:
    """Reactors that listen to every conversation.

    Attributes:
        name: What they are called in messages.
        summary: What they do, in one line.
        factory: Makes them; called once per turn, so that they may keep the turn's state. One
            that raises is named and not called again.
    """

    name: str
    summary: str
    factory: Callable[[], ConversationReactors]


@attrs.frozen
class ListenerSpecification:
    """What listens to every run: to its own events, and to those of the answers in it.

    Attributes:
        name: What it is called in messages.
        summary: What it does, in one line.
        factory: Makes the listener, a plain function of one event; called once per run. One that
            raises is named and not called again.
    """

    name: str
    summary: str
    factory: Callable[[], Callable[[RunEvent], object]]


@attrs.frozen(kw_only=True)
class ApproverContext:
    """What an approver is given when it is made.

    Attributes:
        name: What it is called.
        settings: The keys of its plugin's table in the configuration besides ``module``,
            ``package`` and ``enabled``: plain TOML values. The approver checks them.
        working_directory: Where relative paths in the settings begin.
    """

    name: str
    settings: Mapping[str, Any] = attrs.field(factory=dict, converter=Settings)
    working_directory: Path


@attrs.frozen
class ApproverSpecification:
    """Who can be asked, before the person at the terminal, whether a call may be executed.

    Attributes:
        name: What the setting ``approver`` and ``--approver`` call it. One that ships
            (``terminal``) cannot be replaced.
        summary: By which rule it answers, in one line.
        factory: Makes it from its context; called once per session, when there are tools. Its
            ``approve`` allows, denies or edits, or returns ``None``: then the person is asked,
            and without one the call is refused. What it raises is a refusal, too.
    """

    name: str
    summary: str
    factory: Callable[[ApproverContext], DeferringApprover]


@attrs.frozen(kw_only=True)
class TransportContext:
    """What a transport is given when it is made.

    Attributes:
        provider: Whose requests it carries, by the name in the configuration.
        limits: Bound what requests and answers may hold.
        timeouts: As the provider's table says; for requests that bring none of their own.
        produce_direct: Makes the transport ``direct`` with the table's proxies and certificates,
            for one that adds something and passes the rest on. Who calls it closes it.
    """

    provider: str
    limits: Limits
    timeouts: Timeouts
    produce_direct: Callable[[], Transport]


@attrs.frozen
class TransportSpecification:
    """A way by which the requests of a provider go out and their answers come back.

    Attributes:
        name: What ``transport`` in ``[providers.NAME]`` calls it. One that ships (``direct``,
            ``sdk``) cannot be replaced.
        summary: What it does, in one line.
        factory: Makes it from its context; called once for each client, before its first request.
            It is closed with the client. Heavy libraries are imported in here or later.
        plugin: The plugin that has it, for errors; filled in where it is found.
    """

    name: str
    summary: str
    factory: Callable[[TransportContext], Transport]
    plugin: str = ""


@attrs.frozen
class CommandSpecification:
    """A command that is added to ``vibe``.

    Attributes:
        name: The word after ``vibe``. A command that ships cannot be replaced.
        summary: What it does, in one line for ``vibe --help``.
        reference: The function that performs it, as ``package.module:function``; imported
            when the command is used. It is called with the list of the arguments after the
            command's name, and returns the exit code, or ``None`` for 0.
    """

    name: str
    summary: str
    reference: str


@attrs.frozen
class ExporterSpecification:
    """A form in which conversations can be written.

    Attributes:
        name: What ``vibe export --format`` calls it. One that ships cannot be replaced.
        summary: What it is, in one line.
        suffixes: The endings of file names that ask for it, as ``.md``.
        write: Returns a conversation as a text in this form. The content store has the bytes of
            media. Called once for each conversation; imports what is heavy when it is called.
    """

    name: str
    summary: str
    suffixes: tuple[str, ...]
    write: Callable[[Exportable, ContentStore], str]


@attrs.frozen
class ImporterSpecification:
    """A form in which conversations of elsewhere can be read.

    Attributes:
        name: What the user calls the form. One that ships cannot be replaced.
        summary: What it is, in one line.
        suffixes: The endings of file names that it may have, as ``.json``.
        recognize: Tells of a file with such an ending whether it has this form; looks at no more
            of it than it must, and raises nothing on one that it does not understand.
        read: Yields the conversations of a file, each with what could not be carried over. They
            belong to no store yet; the bytes of their media are in their canisters. It raises a
            ``CodecError`` where the file is not what it was taken for. A conversation should have
            the same id each time that it is read, so that it is not kept twice.
    """

    name: str
    summary: str
    suffixes: tuple[str, ...]
    recognize: Callable[[Path], bool]
    read: Callable[[Path], Iterable[Translation[Conversation]]]


@hookspec
def survey_providers() -> Sequence[ProviderSpecification]:  # type: ignore[empty-body]
    """Names the providers that the plugin has.

    Called:
        When a provider of the plugin is first used, and when all plugins are checked: once
        per process in either case. Never to list what is configured.

    Returns:
        A list or tuple, perhaps empty. Among them one for each ``[providers.NAME]`` whose
        ``module`` is the plugin's, or one for :data:`ANY_NAME`.
    """


@hookspec
def survey_ensembles() -> Sequence[EnsembleSpecification]:  # type: ignore[empty-body]
    """Names the ensembles of invocables that the plugin has.

    Called:
        When an ensemble of the plugin is first wanted, and when all plugins are checked: once
        per process in either case. Never to list what is configured.

    Returns:
        A list or tuple, perhaps empty. Among them one for each ``[ensembles.NAME]`` whose
        ``module`` is the plugin's, or one for :data:`ANY_NAME`.
    """


@hookspec
def survey_model_attributes() -> Sequence[ModelAttributesSpecification]:  # type: ignore[empty-body]
    """Names directories with attributes of the models of the plugin's own providers.

    Called:
        Once per process, when the attributes of a model are first needed.

    Returns:
        A list or tuple, perhaps empty. Later directories win over earlier ones, and the
        user's ``[[models]]`` over all. What is said of a provider that the configuration
        does not give to this plugin's module has no effect.
    """


@hookspec
def survey_reactors() -> Sequence[ReactorsSpecification]:  # type: ignore[empty-body]
    """Names reactors that listen to every conversation.

    Called:
        Once per process, before the first turn; of a plugin named in ``[providers.NAME]`` before
        the first turn after that provider has been loaded.

    Returns:
        A list or tuple, perhaps empty.
    """


@hookspec
def survey_listeners() -> Sequence[ListenerSpecification]:  # type: ignore[empty-body]
    """Names what listens to every run of an engine: to its steps, its calls, its approvals.

    Called:
        Once per process, before the first run; of plugins that ``[plugins.NAME]`` names.

    Returns:
        A list or tuple, perhaps empty.
    """


@hookspec
def survey_approvers() -> Sequence[ApproverSpecification]:  # type: ignore[empty-body]
    """Names who can decide in the user's place which calls are executed.

    Called:
        Once per process, when the configuration or ``--approver`` names an approver and a model
        has tools; of plugins that ``[plugins.NAME]`` names.

    Returns:
        A list or tuple, perhaps empty. Of several of one name, the first is meant.
    """


@hookspec
def survey_transports() -> Sequence[TransportSpecification]:  # type: ignore[empty-body]
    """Names transports, for tables of providers to choose: ``transport = "name"``.

    Called:
        Once per process, when a provider is used or checked that chooses a transport which does
        not ship; of plugins that ``[plugins.NAME]`` names.

    Returns:
        A list or tuple, perhaps empty. Where several have a name, the first one is meant.
    """


@hookspec
def survey_commands() -> Sequence[CommandSpecification]:  # type: ignore[empty-body]
    """Names commands to be added to ``vibe``.

    Called:
        Once per process, when ``vibe`` is given a command that does not ship, or is asked
        for all of them.

    Returns:
        A list or tuple, perhaps empty.
    """


@hookspec
def survey_exporters() -> Sequence[ExporterSpecification]:  # type: ignore[empty-body]
    """Names forms in which conversations can be written.

    Called:
        Once per process, when a conversation is exported; of plugins that ``[plugins.NAME]``
        names.

    Returns:
        A list or tuple, perhaps empty.
    """


@hookspec
def survey_importers() -> Sequence[ImporterSpecification]:  # type: ignore[empty-body]
    """Names forms in which conversations of elsewhere can be read.

    Called:
        Once per process, when conversations are imported; of plugins that ``[plugins.NAME]``
        names.

    Returns:
        A list or tuple, perhaps empty. Where several recognize a file, the first one reads it.
    """


HOOKS: Final[Mapping[str, type[Any]]] = {
    "survey_providers": ProviderSpecification,
    "survey_ensembles": EnsembleSpecification,
    "survey_reactors": ReactorsSpecification,
    "survey_listeners": ListenerSpecification,
    "survey_transports": TransportSpecification,
    "survey_approvers": ApproverSpecification,
    "survey_commands": CommandSpecification,
    "survey_model_attributes": ModelAttributesSpecification,
    "survey_exporters": ExporterSpecification,
    "survey_importers": ImporterSpecification,
}
"""From each hook to what the list is made of that it returns."""

"""Specifications of runs: ensembles, approvers, reactors and listeners."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.limits import Limits
from vibe_llms.foundation.secrets import Settings
from vibe_llms.plugins.specification.users import Consent, Progress

if TYPE_CHECKING:  # types only: this module is below theirs
    from vibe_llms.engine.contexts import RunEvent
    from vibe_llms.events.reactors import ConversationReactors
    from vibe_llms.invocables.approvals import DeferringApprover
    from vibe_llms.invocables.ensembles import Ensemble


@frozen(kw_only=True)
class EnsembleContext:
    """Context for making an ensemble.

    Attributes:
        name: Its name, as configured.
        settings: The keys of its table in the configuration except ``module``, ``package`` and
            ``enabled``: plain TOML values. The ensemble validates them.
        working_directory: Start of relative paths in the settings.
        data_directory: Its directory for permanent data. It may not exist yet.
        cache_directory: Its directory for data that may be deleted at any time. It may not exist
            yet.
        consent: Must be asked before anything is downloaded or installed.
        progress: Must be informed about operations that take longer than a second.
        limits: Limits of waiting and sizes.
        application: The ``Application`` that makes it, for access to models and to the store;
            ``None`` if a plugin manager alone does.
    """

    name: str
    settings: Mapping[str, Any] = attrs.field(factory=dict, converter=Settings)
    working_directory: Path
    data_directory: Path
    cache_directory: Path
    consent: Consent
    progress: Progress
    limits: Limits = attrs.field(factory=Limits)
    application: object = attrs.field(default=None, eq=False, repr=False)


@frozen
class EnsembleSpecification:
    """An ensemble of a plugin.

    Attributes:
        name: Its name: the ``NAME`` of ``[ensembles.NAME]``. It must be the name under which the
            configuration names the plugin's module; :data:`ANY_NAME` stands for all such names, and
            the factory reads the actual one from its context.
        summary: Its purpose for a model, in one line.
        factory: Makes the ensemble from its context. Called for each use of the ensemble, as it is
            connected once. It opens nothing yet: ``connect`` does. Import heavy libraries in the
            factory or later.
    """

    name: str
    summary: str
    factory: Callable[[EnsembleContext], Ensemble]


@frozen
class ReactorsSpecification:
    """Reactors that observe every conversation.

    Attributes:
        name: Name of the reactors in messages.
        summary: Description of the reactors, in one line.
        factory: Makes them; called once per turn, so that they may keep the turn's state. A reactor
            that raises is reported and not called again.
    """

    name: str
    summary: str
    factory: Callable[[], ConversationReactors]


@frozen
class ListenerSpecification:
    """Listener that observes every run: the run's own events, and those of its answers.

    Attributes:
        name: Its name in messages.
        summary: Its description, in one line.
        factory: Makes the listener, a plain function of one event; called once per run. A listener
            that raises is reported and not called again.
    """

    name: str
    summary: str
    factory: Callable[[], Callable[[RunEvent], object]]


@frozen(kw_only=True)
class ApproverContext:
    """Context for making an approver.

    Attributes:
        name: Its name.
        settings: The keys of its plugin's table in the configuration except ``module``,
            ``package`` and ``enabled``: plain TOML values. The approver validates them.
        working_directory: Start of relative paths in the settings.
    """

    name: str
    settings: Mapping[str, Any] = attrs.field(factory=dict, converter=Settings)
    working_directory: Path


@frozen
class ApproverSpecification:
    """An approver that is asked about calls before the person at the terminal.

    Attributes:
        name: Its name for the setting ``approver`` and ``--approver``. A shipped one (``terminal``)
            cannot be replaced.
        summary: Its rule, in one line.
        factory: Makes it from its context; called once per session, when there are tools. Its
            ``approve`` allows, denies or edits, or returns ``None``: then the person is asked, and
            without one the call is refused. An exception is a refusal, too.
    """

    name: str
    summary: str
    factory: Callable[[ApproverContext], DeferringApprover]

"""What a plugin says of runs: what models may invoke, who approves of it, who listens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.foundation.limits import Limits
from vibe_llms.foundation.secrets import Settings
from vibe_llms.plugins.specification.users import Consent, Progress

if TYPE_CHECKING:  # types only: this module lies below those that it speaks of
    from vibe_llms.engine.contexts import RunEvent
    from vibe_llms.events.reactors import ConversationReactors
    from vibe_llms.invocables.approvals import DeferringApprover
    from vibe_llms.invocables.ensembles import Ensemble


@frozen(kw_only=True)
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


@frozen
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


@frozen
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


@frozen
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


@frozen(kw_only=True)
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


@frozen
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

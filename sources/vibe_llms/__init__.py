"""Converse with any language model through one message model.

The names below are loaded when they are first used. Importing this package is fast: it reads no
files and opens no connections.
"""

from __future__ import annotations

import sys

from vibe_llms.foundation.lazy_imports import MovedModules, produce_attribute_access
from vibe_llms.foundation.version import __version__ as __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from vibe_llms.agents.remote import connect as connect
    from vibe_llms.application import Application as Application
    from vibe_llms.batches.channel import BatchChannel as BatchChannel
    from vibe_llms.batches.items import BatchInput as BatchInput
    from vibe_llms.batches.items import BatchReport as BatchReport
    from vibe_llms.batches.synchrony import (
        SyncBatchChannel as SyncBatchChannel,
    )
    from vibe_llms.batches.synchrony import (
        SyncVendorBatchChannel as SyncVendorBatchChannel,
    )
    from vibe_llms.batches.vendor_channel import (
        VendorBatchChannel as VendorBatchChannel,
    )
    from vibe_llms.configuration.sources import load_configuration as load_configuration
    from vibe_llms.conversations.conversation import Conversation as Conversation
    from vibe_llms.evals.evaluating import evaluate as evaluate
    from vibe_llms.evals.evaluating import run_suite as run_suite
    from vibe_llms.evals.suites import Suite as Suite
    from vibe_llms.events.bus import EventBus as EventBus
    from vibe_llms.events.reactors import ConversationReactors as ConversationReactors
    from vibe_llms.exceptions import ConverseError as ConverseError
    from vibe_llms.instruments.channels.asynchronous import AsyncChannel as AsyncChannel
    from vibe_llms.instruments.channels.synchronous import SyncChannel as SyncChannel
    from vibe_llms.instruments.channels.tools import ToolChannel as ToolChannel
    from vibe_llms.instruments.embedders import Embedder as Embedder
    from vibe_llms.instruments.embedders import SyncEmbedder as SyncEmbedder
    from vibe_llms.instruments.engines import Engine as Engine
    from vibe_llms.instruments.engines import SyncEngine as SyncEngine
    from vibe_llms.instruments.illustrators import Illustrator as Illustrator
    from vibe_llms.instruments.illustrators import SyncIllustrator as SyncIllustrator
    from vibe_llms.instruments.models import Model as Model
    from vibe_llms.instruments.models import SyncModel as SyncModel
    from vibe_llms.instruments.moderators import Moderator as Moderator
    from vibe_llms.instruments.moderators import SyncModerator as SyncModerator
    from vibe_llms.instruments.parsers.parsers import Parser as Parser
    from vibe_llms.instruments.prompts.prompt import Prompt as Prompt
    from vibe_llms.instruments.rankers import Ranker as Ranker
    from vibe_llms.instruments.rankers import SyncRanker as SyncRanker
    from vibe_llms.instruments.speakers import Speaker as Speaker
    from vibe_llms.instruments.speakers import SyncSpeaker as SyncSpeaker
    from vibe_llms.instruments.transcribers import SyncTranscriber as SyncTranscriber
    from vibe_llms.instruments.transcribers import Transcriber as Transcriber
    from vibe_llms.invocables.invokers import Invoker as Invoker
    from vibe_llms.invocables.invokers import invocable as invocable
    from vibe_llms.messages.canisters import AssistantCanister as AssistantCanister
    from vibe_llms.messages.canisters import Canister as Canister
    from vibe_llms.messages.canisters import DocumentCanister as DocumentCanister
    from vibe_llms.messages.canisters import InvocationCanister as InvocationCanister
    from vibe_llms.messages.canisters import ResultCanister as ResultCanister
    from vibe_llms.messages.canisters import SupervisorCanister as SupervisorCanister
    from vibe_llms.messages.canisters import UserCanister as UserCanister
    from vibe_llms.messages.contents import AudioContent as AudioContent
    from vibe_llms.messages.contents import CacheHint as CacheHint
    from vibe_llms.messages.contents import Content as Content
    from vibe_llms.messages.contents import FileContent as FileContent
    from vibe_llms.messages.contents import ImageContent as ImageContent
    from vibe_llms.messages.contents import NativeContent as NativeContent
    from vibe_llms.messages.contents import ReasoningContent as ReasoningContent
    from vibe_llms.messages.contents import RefusalContent as RefusalContent
    from vibe_llms.messages.contents import TextualContent as TextualContent
    from vibe_llms.messages.contents import VideoContent as VideoContent
    from vibe_llms.messages.descriptions import InvocableDescription as InvocableDescription
    from vibe_llms.messages.requests import Request as Request
    from vibe_llms.messages.requests import Response as Response
    from vibe_llms.messages.server_tools import ServerTool as ServerTool
    from vibe_llms.messages.vectors import Vectors as Vectors
    from vibe_llms.plugins.discovery import discover_providers as discover_providers
    from vibe_llms.plugins.discovery import load_provider as load_provider
    from vibe_llms.plugins.markers import hook as hook
    from vibe_llms.providers.call_caching import CallCache as CallCache

_MODULES = {
    "Application": "application",
    "AsyncChannel": "instruments.channels.asynchronous",
    "AssistantCanister": "messages.canisters",
    "AudioContent": "messages.contents",
    "BatchChannel": "batches.channel",
    "BatchInput": "batches.items",
    "BatchReport": "batches.items",
    "CallCache": "providers.call_caching",
    "Canister": "messages.canisters",
    "Content": "messages.contents",
    "Conversation": "conversations.conversation",
    "ConversationReactors": "events.reactors",
    "ConverseError": "exceptions",
    "DocumentCanister": "messages.canisters",
    "Embedder": "instruments.embedders",
    "Engine": "instruments.engines",
    "EventBus": "events.bus",
    "FileContent": "messages.contents",
    "Illustrator": "instruments.illustrators",
    "ImageContent": "messages.contents",
    "InvocableDescription": "messages.descriptions",
    "InvocationCanister": "messages.canisters",
    "Invoker": "invocables.invokers",
    "Model": "instruments.models",
    "Moderator": "instruments.moderators",
    "CacheHint": "messages.contents",
    "NativeContent": "messages.contents",
    "Parser": "instruments.parsers.parsers",
    "Prompt": "instruments.prompts.prompt",
    "Ranker": "instruments.rankers",
    "ReasoningContent": "messages.contents",
    "RefusalContent": "messages.contents",
    "Request": "messages.requests",
    "Response": "messages.requests",
    "ResultCanister": "messages.canisters",
    "ServerTool": "messages.server_tools",
    "Speaker": "instruments.speakers",
    "Suite": "evals.suites",
    "SupervisorCanister": "messages.canisters",
    "SyncBatchChannel": "batches.synchrony",
    "SyncChannel": "instruments.channels.synchronous",
    "SyncEmbedder": "instruments.embedders",
    "SyncEngine": "instruments.engines",
    "SyncIllustrator": "instruments.illustrators",
    "SyncModel": "instruments.models",
    "SyncModerator": "instruments.moderators",
    "SyncRanker": "instruments.rankers",
    "SyncSpeaker": "instruments.speakers",
    "SyncTranscriber": "instruments.transcribers",
    "SyncVendorBatchChannel": "batches.synchrony",
    "ToolChannel": "instruments.channels.tools",
    "TextualContent": "messages.contents",
    "Transcriber": "instruments.transcribers",
    "UserCanister": "messages.canisters",
    "Vectors": "messages.vectors",
    "VendorBatchChannel": "batches.vendor_channel",
    "VideoContent": "messages.contents",
    "connect": "agents.remote",
    "discover_providers": "plugins.discovery",
    "evaluate": "evals.evaluating",
    "hook": "plugins.markers",
    "invocable": "invocables.invokers",
    "load_configuration": "configuration.sources",
    "load_provider": "plugins.discovery",
    "run_suite": "evals.evaluating",
}
__all__ = sorted(_MODULES)

__getattr__, __dir__ = produce_attribute_access(__name__, _MODULES)
sys.meta_path.append(MovedModules)

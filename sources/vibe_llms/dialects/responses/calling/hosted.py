"""Tools that the vendor defines: their calls and results, as canisters.

Some tools are executed by the vendor; the results are in the item of the call. Other tools are left
to the client (a computer, a shell, patches, approvals of a tool on another server): their calls are
invocations for this library, although they have no schema. In both cases the whole item is kept
with the invocation, to be returned to the vendor.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from vibe_llms.dialects.decoding import read_text
from vibe_llms.dialects.extras import make_native, without, write_json
from vibe_llms.dialects.payloads import decode_base64
from vibe_llms.dialects.responses.calling.media import read_image
from vibe_llms.dialects.responses.quirks import PROTOCOL
from vibe_llms.dialects.server_results import make_source, read_pages
from vibe_llms.messages.canisters import InvocationCanister, Owner, ResultCanister
from vibe_llms.messages.contents import AnyContent, ImageContent, TextualContent

CALLS: Final = {
    "apply_patch_call": "apply_patch",
    "code_interpreter_call": "code_execution",
    "computer_call": "computer",
    "file_search_call": "file_search",
    "image_generation_call": "image_generation",
    "local_shell_call": "local_shell",
    "mcp_approval_request": "mcp_approval",
    "mcp_call": "mcp",
    "program": "program",
    "shell_call": "shell",
    "tool_search_call": "tool_search",
    "web_search_call": "web_search",
}
"""Name of the tool for each type of call; a server tool has its common name."""

OUTPUTS: Final = {
    "apply_patch_call_output": "apply_patch",
    "computer_call_output": "computer",
    "local_shell_call_output": "local_shell",
    "mcp_approval_response": "mcp_approval",
    "program_output": "program",
    "shell_call_output": "shell",
    "tool_search_output": "tool_search",
}
"""Name of the tool for each type of item that is only a result."""

ALWAYS_OURS: Final = frozenset(
    {"apply_patch_call", "computer_call", "local_shell_call", "mcp_approval_request"}
)
"""Types of calls that are always left to us."""

OUTPUTS_BY_CALL: Final = {
    "apply_patch_call": "apply_patch_call_output",
    "computer_call": "computer_call_output",
    "local_shell_call": "local_shell_call_output",
    "mcp_approval_request": "mcp_approval_response",
    "shell_call": "shell_call_output",
    "tool_search_call": "tool_search_output",
}
"""Type of the answering item for each type of call that the client may have to execute."""

_WRAPPER_FIELDS: Final = frozenset(
    {"type", "id", "call_id", "status", "created_by", "caller", "fingerprint", "execution"}
)
_RESULT_FIELDS: Final = frozenset({"outputs", "result", "results", "output", "error"})


def read_call(item: Mapping[str, Any]) -> InvocationCanister:
    """Return the invocation for a call of a vendor's tool.

    The image of ``image_generation_call`` is in the result, so the call does not keep it.
    """
    kind = str(item["type"])
    arguments_format, arguments = _read_arguments(item)
    native_fields = {**item, "result": None} if _find_image(item) is not None else item
    name = CALLS.get(kind) or kind.removesuffix("_call")
    if kind == "mcp_call" and isinstance(item.get("name"), str):
        name = item["name"]
    return InvocationCanister(
        invocation_id=identify(item),
        name=name,
        arguments=arguments,
        form="text" if arguments_format == "text" else "json",
        owner=find_owner(item),
        native=make_native(PROTOCOL, native_fields),
    )


def identify(item: Mapping[str, Any]) -> str:
    """Return the id by which a result refers to an item, or the item's own id if there is none."""
    for name in ("call_id", "approval_request_id", "id"):
        value = item.get(name)
        if isinstance(value, str) and value:
            return value
    return ""


def find_owner(item: Mapping[str, Any]) -> Owner:
    """Return the executor of a call; for two tools it depends on the item's fields."""
    kind = item["type"]
    if kind in ALWAYS_OURS:
        return Owner.OURS
    if kind == "tool_search_call":
        return Owner.OURS if item.get("execution") == "client" else Owner.VENDOR
    if kind == "shell_call":
        environment = item.get("environment")
        place = environment.get("type") if isinstance(environment, Mapping) else None
        # There are several kinds of containers, and the vendor owns all of them.
        return Owner.VENDOR if str(place).startswith("container") else Owner.OURS
    return Owner.VENDOR


def _read_arguments(item: Mapping[str, Any]) -> tuple[str, str]:
    """Return the form and the text of a tool's arguments."""
    match item:
        case {"type": "code_interpreter_call" | "program"}:
            code = item.get("code")
            return "text", code if isinstance(code, str) else ""
        case {"type": "mcp_call", "arguments": str(arguments)}:
            return "json", arguments
        case {"type": "web_search_call", "action": Mapping() as action}:
            return "json", write_json(_read_search(action))
        case {"action": Mapping() as action} | {"operation": Mapping() as action}:
            return "json", write_json(action)
        case {"arguments": Mapping() as arguments}:
            return "json", write_json(arguments)
    not_arguments = _WRAPPER_FIELDS | _RESULT_FIELDS
    other_fields = {name: value for name, value in item.items() if name not in not_arguments}
    return "json", write_json(other_fields)


def _read_search(action: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a search, as other vendors name them, or of a visit to a page."""
    arguments = without(action, "type", "sources")
    if arguments.get("queries") == [arguments.get("query")]:
        del arguments["queries"]
    return arguments


def read_included_result(
    item: Mapping[str, Any], invocation: InvocationCanister
) -> ResultCanister | None:
    """Return the result of a call that the vendor executed, if it is in the item."""
    if invocation.owner is Owner.OURS:
        return None
    contents = _read_included_contents(item)
    if not contents:
        return None
    return ResultCanister(
        contents,
        invocation_id=invocation.invocation_id,
        name=invocation.name,
        owner=Owner.VENDOR,
        is_error=bool(item.get("error")),
        native=make_native(PROTOCOL, {"$within": invocation.invocation_id}),
    )


def _read_included_contents(item: Mapping[str, Any]) -> list[AnyContent]:
    image = _find_image(item)
    if image is not None:
        return [image]
    match item:
        case {"type": "code_interpreter_call", "outputs": list(outputs)}:
            return [content for each in outputs for content in _read_output(each)]
        case {"type": "mcp_call", "output": str(output)} if output:
            return [TextualContent(output)]
        case {"type": "web_search_call", "action": {"sources": list(sources)}} if sources:
            return [*read_pages(sources)]
        case {"results": list(results)} if results:
            return [_read_result(each) for each in results]
        case {"error": error} if error:
            return [TextualContent(error if isinstance(error, str) else write_json(error))]
    return []


def _read_output(output: Any) -> list[AnyContent]:
    match output:
        case {"type": "logs", "logs": str(logs)}:
            return [TextualContent(logs)]
        case {"type": "image", "url": str(url)}:
            return [ImageContent(mime_type="image/*", url=url)]
    return [TextualContent(write_json(output))]


def _read_result(result: Any) -> TextualContent:
    if isinstance(result, Mapping) and isinstance(result.get("text"), str):
        title = read_text(result.get("filename")) or read_text(result.get("title"))
        file_id, url = read_text(result.get("file_id")), read_text(result.get("url"))
        return make_source(title=title, url=url, text=result["text"], file_id=file_id)
    return TextualContent(write_json(result))


def _find_image(item: Mapping[str, Any]) -> ImageContent | None:
    if item.get("type") != "image_generation_call" or not isinstance(item.get("result"), str):
        return None
    data, image_format = decode_base64(item["result"]), item.get("output_format") or "png"
    return None if data is None else ImageContent(mime_type=f"image/{image_format}", data=data)


def read_tool_output(item: Mapping[str, Any], owner: Owner) -> ResultCanister:
    """Return the result in an item that answers a call of a vendor's tool."""
    kind = str(item["type"])
    contents, native_fields = _read_output_contents(item)
    return ResultCanister(
        contents,
        invocation_id=identify(item),
        name=OUTPUTS.get(kind) or kind.removesuffix("_output").removesuffix("_call"),
        is_error=item.get("status") == "failed" or item.get("approve") is False,
        owner=owner,
        native=make_native(PROTOCOL, native_fields),
    )


def _read_output_contents(
    item: Mapping[str, Any],
) -> tuple[list[AnyContent], Mapping[str, Any]]:
    """Return the contents of an answer, and the item without an image that is among them."""
    match item:
        case {"type": "computer_call_output", "output": Mapping() as screen}:
            image = read_image(screen)
            if image is None:
                return [TextualContent(write_json(screen))], item
            source = "image_url" if screen.get("image_url") else "file_id"
            without_image = {name: value for name, value in screen.items() if name != source}
            return [image], {**item, "output": without_image}
        case {"type": "shell_call_output", "output": list(outputs)}:
            texts = [f"{each.get('stdout') or ''}{each.get('stderr') or ''}" for each in outputs]
            return [TextualContent(text) for text in texts], item
        case {"type": "mcp_approval_response", "reason": str(reason)}:
            return [TextualContent(reason)], item
        case {"output": str(text)} | {"result": str(text)}:
            return [TextualContent(text)], item
        case {"tools": list(tools)}:
            return [TextualContent(write_json(tools))], item
    return [], item

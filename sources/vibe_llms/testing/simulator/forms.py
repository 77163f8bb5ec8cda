"""Forms with files, read by the standard library's parser of mail."""

from __future__ import annotations

from email import policy
from email.parser import BytesParser
from typing import Any

from vibe_llms.foundation.attrs_classes import frozen
from vibe_llms.testing.simulator.refusals import require


@frozen
class UploadedFile:
    """A file in a form."""

    name: str
    media_type: str
    data: bytes


def read_fields(data: bytes, content_type: str) -> dict[str, Any]:
    """Return the fields of a form; those whose name ends with ``[]`` as lists.

    Raises:
        SimulatedRefusal: It is not a form.
    """
    head = f"MIME-Version: 1.0\r\nContent-Type: {content_type}\r\n\r\n".encode()
    message = BytesParser(policy=policy.HTTP).parsebytes(head + data)
    require(message.is_multipart() and not message.defects, "Could not parse multipart form")
    fields: dict[str, Any] = {}
    for part in message.iter_parts():
        name = part.get_param("name", header="content-disposition")
        require(isinstance(name, str) and name, "A part of the form has no name.")
        payload = part.get_payload(decode=True)
        assert isinstance(payload, bytes)
        value: Any = payload.decode(errors="replace")
        if (file := part.get_filename()) is not None:
            value = UploadedFile(file, part.get_content_type(), payload)
        if str(name).endswith("[]"):
            fields.setdefault(str(name)[:-2], []).append(value)
        else:
            fields[str(name)] = value
    return fields

"""Errors of vendors with their status, and advice for the user."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from vibe_llms.exceptions import ConverseError
from vibe_llms.foundation.json_types import JsonObject
from vibe_llms.providers.credentials import advise_of_key
from vibe_llms.providers.requirements import advise_of_address
from vibe_llms.providers.sources import read_problem
from vibe_llms.wire.exchanges import Exchange

if TYPE_CHECKING:
    from vibe_llms.providers.vendors import VendorClient


async def read_error(
    client: VendorClient, exchange: Exchange, model: str, url: str
) -> ConverseError:
    """Return the error for an answer with an error status.

    Args:
        model: The model, for the error.
        url: The URL of the request.
    """
    problem = await read_problem(exchange)
    return produce_error(client, problem, model, url, exchange.status, exchange.headers)


def produce_error(
    client: VendorClient,
    problem: JsonObject | str,
    model: str,
    url: str,
    status: int,
    headers: Mapping[str, str],
) -> ConverseError:
    """Return the error for the body of an answer; see :func:`read_error`."""
    vendor = client.vendor
    error = vendor.produce_error(problem, model, status=status, headers=headers)
    advise_of_key(error, vendor.context.name, vendor.key_variables)
    advise_of_address(error, model, url)
    return error

"""Request events (`schemas/request_event.avsc`) in JSON, made of what the scheduler did. Runs on the connector's own thread."""

import base64
import hashlib
import json
from typing import Any

from .settings import Settings
from .tracking import Finished

ID_BYTES = 8


class UnknownPages(ValueError):
    """The engine's hashes are not of the pages that the tokens fill, so that ids would be wrong."""


def event_of(finished: Finished, settings: Settings, page_size: int, id_scheme: str | None = None) -> dict[str, Any]:
    """The event of a request. `page_size` is what one of the engine's hashes covers, in tokens; `id_scheme` how they are made.

    `event_time` is the moment of the look-up, which is what the order of a cache depends on; `queue_ms` is how long the request
    had waited for it. `complete_before`: of what was looked up before then every event stands in front of this one. `duration_ms` lasts to its finish, when its pages become free. `cached_tokens` is what the usage of the
    response says; `external_cached_tokens` of these came from a tier below.

    Raises UnknownPages.
    """
    followed = finished.followed
    prompt, outputs = pages(finished, page_size)
    event: dict[str, Any] = {
        "event_time": followed.lookup_ms,
        "pool": settings.pool,
        "replica": settings.replica,
        "page_size": page_size,
        "ids_chained": True,
        "input_tokens": finished.prompt_tokens,
        "output_tokens": finished.output_tokens,
        "duration_ms": finished.finish_ms - followed.lookup_ms,
        "queue_ms": followed.queue_ms,
        "complete_before": finished.complete_before,
        "cached_tokens": followed.own_tokens + followed.below_tokens,
        "page_ids": prompt,
    }
    if id_scheme is not None:
        event["id_scheme"] = id_scheme
    if outputs:
        event["output_page_ids"] = outputs
    if followed.below_tokens:
        event["external_cached_tokens"] = followed.below_tokens
    if finished.tenant is not None:
        event["tenant"] = hashlib.blake2b(finished.tenant.encode(), digest_size=8, person=b"kvset-tenant").hexdigest()
    if finished.request_id is not None:
        event["request_id"] = finished.request_id
    return event


def encode(event: dict[str, Any]) -> bytes:
    """One line of JSON, without its end."""
    return json.dumps(event, separators=(",", ":")).encode()


def pages(finished: Finished, page_size: int) -> tuple[str, str]:
    """Ids of the prompt's full pages, and of those that the output filled behind them, packed: in base64, eight bytes an id.

    The last token that was sampled is never computed, so a page that it would complete is not in the cache.
    """
    hashes, prompt, output = finished.block_hashes, finished.prompt_tokens, finished.output_tokens
    prompt_pages = prompt // page_size
    stored_pages = (prompt + output - 1) // page_size if output else prompt_pages
    known = len(hashes)
    # With draft heads a hash also covers tokens that follow its page, so that the last page of all may have none.
    if known > (prompt + output) // page_size or known + 1 < prompt_pages:
        raise UnknownPages(f"{known} hashes for {prompt} + {output} tokens in pages of {page_size}")
    prompt_ids = b"".join([digest[:ID_BYTES] for digest in hashes[:prompt_pages]])
    if known < prompt_pages:
        # A page that the engine cannot find again: an id that no other request has.
        unique = hashlib.blake2b(prompt_ids[-ID_BYTES:], digest_size=ID_BYTES, key=finished.finish_ms.to_bytes(8, "little"))
        prompt_ids += unique.digest()
    output_ids = b"".join([digest[:ID_BYTES] for digest in hashes[prompt_pages:stored_pages]])
    return base64.b64encode(prompt_ids).decode(), base64.b64encode(output_ids).decode()

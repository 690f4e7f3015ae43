"""What a server on this machine's loopback answers: programs of the machine, and pages that it serves itself.

A site in a browser reaches loopback, too: by a name of its own that it has let point there, which the header
Host shows, and by requests across sites, which the header Origin shows. No page can leave them out or choose
them.
"""

from __future__ import annotations

import ipaddress
import re
from functools import lru_cache

__all__ = ["is_loopback", "why_foreign"]

_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^:\[\]]+)(:[0-9]*)?")
_SAFE = ("GET", "HEAD")  # they change nothing, and what they answer a page of another site cannot read


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address. A name but localhost is not looked up, and is none."""
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


@lru_cache(256)
def why_foreign(method: str, host: str | None, origin: str | None, site: str | None) -> str:
    """Why a request may be of another site's page, "" where it is not. ``host``, ``origin``, ``site``: its
    headers Host, Origin and Sec-Fetch-Site."""
    named = _HOST.fullmatch((host or "").lower())
    if named is None or not is_loopback(named[1]):
        return f"what listens on loopback answers to names of loopback alone, not to {(host or '')[:60]!r}"
    if origin is not None and origin.lower() not in (f"http://{host}".lower(), f"https://{host}".lower()):
        return f"it comes from a page of {origin[:60]!r}, another site"
    if method not in _SAFE and site not in (None, "same-origin", "none"):
        return f"a browser says that a page of another site sends it ({site[:20]!r})"
    return ""

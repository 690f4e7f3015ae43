"""Check that a request to a server on this machine's loopback comes from a process of the machine or from the
server's own pages.

A web site that is open in a browser can reach loopback, too. Either a host name of the site points to
loopback, which the header Host shows; or the site's page sends a cross-site request, which the header Origin
shows. No page can omit or choose these headers."""

from __future__ import annotations

import ipaddress
import re
from functools import lru_cache

_HOST = re.compile(r"(\[[0-9a-f:.]+\]|[^:\[\]]+)(:[0-9]*)?")
_SAFE = ("GET", "HEAD")  # these methods change nothing, and a page of another site cannot read the answer


def is_loopback(host: str) -> bool:
    """Whether an address is reached from this machine only. Names other than localhost are not looked up, and
    count as not loopback."""
    try:
        return host == "localhost" or ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


@lru_cache(256)
def why_foreign(method: str, host: str | None, origin: str | None, site: str | None) -> str:
    """Text: why a request may come from the page of another site, or "" if it does not. ``host``, ``origin``
    and ``site``: the request's headers Host, Origin and Sec-Fetch-Site."""
    named = _HOST.fullmatch((host or "").lower())
    if named is None or not is_loopback(named[1]):
        return (
            f"a server on loopback answers only requests to a name of loopback, not to {(host or '')[:60]!r}"
        )
    if origin is not None and origin.lower() not in (f"http://{host}".lower(), f"https://{host}".lower()):
        return f"the request comes from a page of another site, {origin[:60]!r}"
    if method not in _SAFE and site not in (None, "same-origin", "none"):
        return f"the browser says that a page of another site sent the request ({site[:20]!r})"
    return ""

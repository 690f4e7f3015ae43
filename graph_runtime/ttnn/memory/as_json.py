"""Values of ttnn as JSON, in the release's form."""

from __future__ import annotations

import json
from typing import Any, Self


class AsJson:
    """A value with the methods to_json and from_json. ``_plain``: the value in JSON's types; ``_of``: the
    value of such data."""

    __slots__ = ()

    def _plain(self) -> Any:
        raise NotImplementedError

    @classmethod
    def _of(cls, data: Any) -> Self:
        raise NotImplementedError

    def to_json(self) -> str:
        return json.dumps(self._plain(), separators=(",", ":"), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The value of a text that to_json made. Raises ValueError for text that is no JSON."""
        return cls._of(json.loads(text))

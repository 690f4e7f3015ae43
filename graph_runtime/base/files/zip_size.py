"""Number of a zip's members, found before zipfile makes an object of each: a file of 12 MB may have 200,000
of them."""

from __future__ import annotations

_END, _END64, _MEMBER = b"PK\5\6", b"PK\6\6", b"PK\1\2"
_LONGEST = 22 + (1 << 16)  # bytes of the record at the end of a zip, with the longest possible comment
_UNKNOWN = 0xFFFFFFFF  # value of a field whose number is in the zip64 record instead


def most_members(data: memoryview) -> int:
    """An upper bound of the number of members that zipfile would find; 0 for bytes that are no zip."""
    first = max(len(data) - _LONGEST, 0)
    tail = bytes(data[first:])
    at = len(tail) - 22
    if at < 0 or tail[at : at + 4] != _END or tail[-2:] != b"\0\0":  # zipfile looks there first, too
        at = tail.rfind(_END)
    if at < 0 or at + 22 > len(tail):
        return 0
    end, size = first + at, int.from_bytes(tail[at + 12 : at + 16], "little")
    longer = bytes(data[max(end - 76, 0) : max(end - 20, 0)])
    if longer[:4] == _END64 and len(longer) == 56:
        end, size = end - 76, max(int.from_bytes(longer[40:48], "little"), size if size != _UNKNOWN else 0)
    return bytes(data[max(end - size, 0) : end]).count(_MEMBER)

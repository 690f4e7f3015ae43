"""A precision written as text, such as "bfp8_b/LoFi": each word between slashes sets one of a model's
options."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..base.dtypes import FORMATS
from ..base.errors import InputError, all_there_are
from ..base.machine.devices import Device
from ..base.options import Options
from ..ir.ops import numerics
from ..rewrite.formats.store_weights import HOST_FORMATS

AS_GIVEN = "as given"
_DST = "dst="  # beginning of the words for dst, whose values are also names of formats
_WORDS: dict[str, tuple[str, str]] = {  # {word: (the option that it sets, the value)}
    **{name: ("format", name) for name, made in FORMATS.items() if made.kind == "float" and made.converts},
    **{
        (_DST if attr.name == "dst" else "") + choice: (attr.name, choice)
        for attr in numerics.ATTRS
        for choice in attr.choices
        if choice
    },
}


@dataclass(frozen=True, slots=True)
class Precision:
    """A way to compute, named by ``text``. ``format``: storage format of floats on devices; None keeps the
    options' format. ``words``: {option: value} of fidelity, dst and numerics, as in the options' numerics."""

    text: str = AS_GIVEN
    format: str | None = None
    words: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, text: str) -> Precision:
        """Read a text. Raises InputError for an unknown word, and for two words that set the same option."""
        said: dict[str, str] = {}
        if text == AS_GIVEN:
            return cls()
        for word in text.split("/"):
            if word not in _WORDS:
                raise InputError(
                    f"{text!r}: unknown word {word!r}{all_there_are(word, _WORDS)}; write a format, a "
                    "fidelity, an arithmetic or a Dst between slashes, as bfp8_b/LoFi/exact/dst=bf16",
                    got=word,
                    wanted=list(_WORDS),
                )
            name, value = _WORDS[word]
            if name in said:
                raise InputError(f"{text!r} sets the {name} twice", got=text)
            said[name] = value
        return cls(text, said.pop("format", None), said)

    @classmethod
    def from_options(cls, options: Options, device: Device) -> Precision:
        """The options for one device, as a precision."""
        names = (device.kind, str(device))
        formats = [options.formats[name] for name in names if name in options.formats]
        words = {k: v for name in names for k, v in options.numerics.get(name, {}).items()}
        texts = [(_DST if name == "dst" else "") + value for name, value in words.items()]
        return cls("/".join([*formats[-1:], *texts]) or AS_GIVEN, formats[-1] if formats else None, words)

    def over(self, options: Options, devices: Sequence[Device]) -> Options:
        """The options with this precision for each device that is not a host. If all devices are hosts, the
        format applies to their weights."""
        names = [str(device) for device in devices if not device.descriptor.on_host]
        if not names and self.format in HOST_FORMATS and not self.words:
            names = [str(device) for device in devices]
        if not names and (self.format or self.words):
            raise InputError(
                f"{self.text} applies to simulated devices, but the list has none",
                got=self.text,
            )
        formats, words = dict(options.formats), {k: dict(v) for k, v in options.numerics.items()}
        for name in names:
            if self.format:
                formats[name] = self.format
            if self.words:
                words[name] = {**words.get(name, {}), **self.words}
        return replace(options, formats=formats, numerics=words)

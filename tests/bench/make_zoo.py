"""Exports the zoo of ``bench_peers.py --zoo``: ONNX files of networks with random weights, and their inputs.

    python tests/bench/make_zoo.py --out DIR [NAME ...] [--list]

Needs torch, torchvision, timm, transformers and onnx. Each NAME.onnx has a NAME.npz beside it, whose arrays
in_<input> are what is run. Weights and inputs come from fixed seeds. Files that are there stay as they are. A
model that cannot be exported is a line that says why, and the command ends with 1; one JSON line a model.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import zoo_nets as nets
from torch import Tensor, nn

Made = tuple[nn.Module, tuple[Tensor, ...]]

# **************** libraries ****************


def _image(size: int = 224) -> Tensor:
    return torch.randn(1, 3, size, size)


def _vision(name: str, size: int = 224, **options: object) -> Callable[[], Made]:
    def make() -> Made:
        import torchvision

        return torchvision.models.get_model(name, weights=None, **options), (_image(size),)

    return make


def _segmenter(name: str, size: int = 224) -> Callable[[], Made]:
    return _vision(name, size, weights_backbone=None)


def _timm(name: str, size: int = 224) -> Callable[[], Made]:
    def make() -> Made:
        import timm

        timm.layers.set_fused_attn(False)
        return timm.create_model(name, pretrained=False, exportable=True), (_image(size),)

    return make


class _First(nn.Module):
    """A model of transformers whose first output is all that is asked for."""

    def __init__(self, inner: nn.Module, key: str, **options: object):
        super().__init__()
        self.inner, self.key, self.options = inner, key, options

    def forward(self, x: Tensor) -> Tensor:
        return self.inner(**{self.key: x}, **self.options, return_dict=False)[0]


def _transformer(
    model: str, config: str, key: str, example: Callable[[], Tensor], inner: str = "", **options: object
) -> Callable[[], Made]:
    """``options`` are the configuration's; ``inner`` names the part that is taken."""

    def make() -> Made:
        import transformers

        settings = getattr(transformers, config)(**options)
        settings._attn_implementation = "eager"
        made = getattr(transformers, model)(settings)
        for part in filter(None, inner.split(".")):
            made = getattr(made, part)
        given = example()
        extra: dict[str, object] = {}
        if model in _DECODERS:
            extra["use_cache"] = False
        if model in _DECODERS[:2]:  # with a mask, or the exporter meets what looks for packed sequences
            extra["attention_mask"] = torch.ones_like(given)
        return _First(made, key, **extra), (given,)

    return make


def _tokens(length: int, words: int = 1000) -> Callable[[], Tensor]:
    return lambda: torch.randint(0, words, (1, length))


def _floats(*shape: int) -> Callable[[], Tensor]:
    return lambda: torch.randn(*shape)


_DECODERS = ("GPT2Model", "LlamaModel", "MambaModel")
_SMALL = {"num_hidden_layers": 4, "hidden_size": 256, "num_attention_heads": 4, "intermediate_size": 1024}
_SIGNAL = _floats(1, 16000)


def _net(maker: Callable[[], nn.Module], *examples: Callable[[], Tensor]) -> Callable[[], Made]:
    return lambda: (maker(), tuple(example() for example in examples))


# **************** the zoo ****************

ZOO: dict[str, Callable[[], Made]] = {
    # torchvision
    "squeezenet": _vision("squeezenet1_1"),
    "shufflenet": _vision("shufflenet_v2_x1_0"),
    "mobilenetv3_small": _vision("mobilenet_v3_small"),
    "mobilenetv3": _vision("mobilenet_v3_large"),
    "mnasnet": _vision("mnasnet1_0"),
    "densenet": _vision("densenet121"),
    "googlenet": _vision("googlenet", aux_logits=False, init_weights=False),
    "efficientnet_b0": _vision("efficientnet_b0"),
    "regnet_x": _vision("regnet_x_400mf"),
    "regnet_y": _vision("regnet_y_400mf"),
    "resnext50": _vision("resnext50_32x4d"),
    "resnet18": _vision("resnet18"),
    "convnext": _vision("convnext_tiny"),
    "swin": _vision("swin_t"),
    "maxvit": _vision("maxvit_t"),
    "deeplab_mobilenetv3": _segmenter("deeplabv3_mobilenet_v3_large"),
    "lraspp": _segmenter("lraspp_mobilenet_v3_large"),
    # timm
    "efficientformer": _timm("efficientformer_l1"),
    "efficientformerv2": _timm("efficientformerv2_s0"),
    "edgenext": _timm("edgenext_small"),
    "nfnet": _timm("nfnet_l0"),
    "poolformer": _timm("poolformer_s12"),
    "coat": _timm("coat_tiny"),
    "crossvit": _timm("crossvit_tiny_240", 240),
    "swinv2": _timm("swinv2_tiny_window8_256", 256),
    "convnextv2": _timm("convnextv2_atto"),
    "mobilevit": _timm("mobilevit_s", 256),
    "mobilevitv2": _timm("mobilevitv2_050", 256),
    "levit": _timm("levit_128"),
    "ghostnet": _timm("ghostnet_100"),
    "repvgg": _timm("repvgg_a0"),
    "mixer": _timm("mixer_s16_224"),
    "resmlp": _timm("resmlp_12_224"),
    "xcit": _timm("xcit_nano_12_p16_224"),
    "pit": _timm("pit_ti_224"),
    "fastvit": _timm("fastvit_t8", 256),
    "tiny_vit": _timm("tiny_vit_5m_224"),
    "efficientnetv2": _timm("tf_efficientnetv2_b0"),
    "lcnet": _timm("lcnet_050"),
    "rexnet": _timm("rexnet_100"),
    "dla34": _timm("dla34"),
    "hrnet": _timm("hrnet_w18_small"),
    "res2net": _timm("res2net50_26w_4s"),
    "deit": _timm("deit_tiny_patch16_224"),
    # transformers
    "distilbert": _transformer(
        "DistilBertModel", "DistilBertConfig", "input_ids", _tokens(128), n_layers=4, dim=256, n_heads=4
    ),
    "albert": _transformer("AlbertModel", "AlbertConfig", "input_ids", _tokens(64), **_SMALL),
    "electra": _transformer("ElectraModel", "ElectraConfig", "input_ids", _tokens(64)),
    "squeezebert": _transformer("SqueezeBertModel", "SqueezeBertConfig", "input_ids", _tokens(64)),
    "t5": _transformer("T5EncoderModel", "T5Config", "input_ids", _tokens(64), num_layers=4),
    "gpt2": _transformer("GPT2Model", "GPT2Config", "input_ids", _tokens(64), n_layer=4),
    "llama": _transformer("LlamaModel", "LlamaConfig", "input_ids", _tokens(32), **_SMALL),
    "mamba": _transformer(
        "MambaModel", "MambaConfig", "input_ids", _tokens(16), num_hidden_layers=2, hidden_size=128
    ),
    "wav2vec2": _transformer("Wav2Vec2Model", "Wav2Vec2Config", "input_values", _SIGNAL, **_SMALL),
    "hubert": _transformer("HubertModel", "HubertConfig", "input_values", _SIGNAL, **_SMALL),
    "sew": _transformer("SEWModel", "SEWConfig", "input_values", _SIGNAL, **_SMALL),
    "wavlm": _transformer("WavLMModel", "WavLMConfig", "input_values", _SIGNAL, **_SMALL),
    "whisper_encoder": _transformer(
        "WhisperModel",
        "WhisperConfig",
        "input_features",
        _floats(1, 80, 600),
        "encoder",
        encoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        max_source_positions=300,
        d_model=256,
        encoder_ffn_dim=1024,
    ),
    "segformer": _transformer("SegformerModel", "SegformerConfig", "pixel_values", _image),
    "yolos": _transformer(
        "YolosModel",
        "YolosConfig",
        "pixel_values",
        lambda: _image(256),
        image_size=(256, 256),
        num_hidden_layers=4,
        hidden_size=192,
        num_attention_heads=3,
        intermediate_size=768,
    ),
    "clip_vision": _transformer(
        "CLIPVisionModel", "CLIPVisionConfig", "pixel_values", _image, **_SMALL, image_size=224
    ),
    "hifigan": _transformer(
        "SpeechT5HifiGan",
        "SpeechT5HifiGanConfig",
        "spectrogram",
        _floats(32, 80),
        upsample_initial_channel=128,
        normalize_before=False,
    ),
    # the project's own
    "unet_transposed": _net(lambda: nets.UNet(bilinear=False), lambda: _image(128)),
    "unet_bilinear": _net(lambda: nets.UNet(bilinear=True), lambda: _image(128)),
    "yolo": _net(nets.Yolo, lambda: _image(320)),
    "dcgan": _net(nets.dcgan, _floats(1, 100, 1, 1)),
    "super_resolution": _net(nets.super_resolution, _floats(1, 1, 96, 96)),
    "leaky_net": _net(nets.leaky_net, lambda: _image(96)),
    "autoencoder": _net(nets.autoencoder, lambda: _image(128)),
    "volume_net": _net(nets.volume_net, _floats(1, 1, 16, 32, 32)),
    "lstm": _net(lambda: nets.Recurrent("LSTM"), _tokens(50)),
    "bilstm": _net(lambda: nets.Recurrent("LSTM", 128, 1, both=True), _tokens(40)),
    "gru": _net(lambda: nets.Recurrent("GRU"), _tokens(50)),
    "rnn": _net(lambda: nets.Recurrent("RNN", 128), _tokens(50)),
    "tcn": _net(nets.Temporal, _floats(1, 32, 512)),
    "wavenet": _net(nets.Waves, _floats(1, 1, 2000)),
    "small_conv1d": _net(nets.small_conv1d, _floats(1, 1, 16000)),
    "text_cnn": _net(nets.TextConvolutions, _tokens(64)),
    "dlrm": _net(nets.Dlrm, _floats(1, 13), lambda: torch.randint(0, 10000, (1, 8))),
    "pointnet": _net(nets.PointNet, _floats(1, 3, 1024)),
    "cdist": _net(nets.Distances, _floats(256, 32)),
    "softmax_250": _net(nets.SoftmaxRows, _floats(64, 250)),
    "depthwise_8": _net(lambda: nets.depthwise(8), _floats(1, 8, 112, 112)),
    "depthwise_24": _net(lambda: nets.depthwise(24), _floats(1, 24, 56, 56)),
    "groups_of_8": _net(nets.groups_of_8, lambda: _image(112)),
    "pools": _net(nets.Pools, lambda: _image(112)),
    "made_weights": _net(nets.MadeWeights, lambda: _image(112)),
    "exact_gelu": _net(nets.ExactGelu, _floats(1, 196, 192)),
}


def export(name: str, out: Path) -> dict[str, object]:
    """Write NAME.onnx and NAME.npz; the line that says so. Whatever the exporter raises is raised."""
    path, line = out / f"{name}.onnx", {"model": name}
    arrays = path.with_suffix(".npz")
    if path.exists() and arrays.exists():
        return line | {"kept": True}
    torch.manual_seed(0)
    model, examples = ZOO[name]()
    names = [f"x{i}" for i in range(len(examples))] if len(examples) > 1 else ["x"]
    part = path.with_suffix(".part")
    with torch.no_grad():
        torch.onnx.export(
            model.eval(), examples, str(part), input_names=names, opset_version=17, dynamo=False
        )
    given = {f"in_{key}": value.numpy() for key, value in zip(names, examples, strict=True)}
    np.savez(arrays, **given)
    part.rename(path)
    return line | {"bytes": path.stat().st_size}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--list", action="store_true", help="print the names")
    given = parser.parse_args()
    if given.list:
        print("\n".join(ZOO))
        return 0
    unknown = [name for name in given.names if name not in ZOO]
    if unknown or given.out is None:
        parser.error(f"no model {', '.join(unknown)}; see --list" if unknown else "--out DIR is missing")
    given.out.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    failed = 0
    for name in given.names or ZOO:
        try:
            line = export(name, given.out)
        except Exception as error:  # any of the exporter's; the others are still wanted
            line, failed = {"model": name, "error": f"{type(error).__name__}: {str(error)[:300]}"}, 1
        print(json.dumps(line), flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())

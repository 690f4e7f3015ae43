"""Quantized ONNX models for bench_peers.py, by ONNX Runtime's own quantizer.

    python tests/bench/make_quantized.py export OUT [--names resnet18,mobilenet_v3_large]    torchvision's
    python tests/bench/make_quantized.py quantize DIR OUT [--names resnet18,bert] [--ways qdq,dynamic]

``export`` writes models with random weights as OUT/NAME.onnx beside NAME.npz (arrays in_<input>).
``quantize`` takes such a folder and writes NAME.WAY.onnx with the same inputs:

    qdq            QuantizeLinear / DequantizeLinear, uint8 activations, int8 weights, one scale a tensor
    qdq_channels   the same with one scale a channel of each weight
    qdq_signed     int8 activations and weights, one scale a channel
    qoperator      QLinearConv, QLinearMatMul ...: uint8 activations, int8 weights
    dynamic        DynamicQuantizeLinear, MatMulInteger: what activations need is found as the model runs

Static ways are calibrated with the inputs and a few others like them: random floats, the same integers. That
suits timing and comparing runtimes; random weights have no accuracy to lose.
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

import numpy as np

CALIBRATIONS = 4


class _Like:
    """Inputs like those given: floats drawn anew, integers as they are."""

    def __init__(self, inputs: dict[str, np.ndarray]):
        rng = np.random.default_rng(1)
        drawn = [
            {
                name: (rng.standard_normal(x.shape) * (x.std() or 1) + x.mean()).astype(x.dtype)
                if x.dtype.kind == "f"
                else x
                for name, x in inputs.items()
            }
            for _ in range(CALIBRATIONS - 1)
        ]
        self.left = [inputs, *drawn]

    def get_next(self) -> dict[str, np.ndarray] | None:
        return self.left.pop() if self.left else None


def quantize(model: Path, out: Path, way: str) -> None:
    """Write ``out`` and its inputs."""
    from onnxruntime import quantization as q
    from onnxruntime.quantization.shape_inference import quant_pre_process

    class Reader(_Like, q.CalibrationDataReader):
        pass

    with np.load(model.with_suffix(".npz")) as file:
        inputs = {key.removeprefix("in_"): file[key] for key in file.files if key.startswith("in_")}
    prepared = out.with_suffix(".prepared")
    quant_pre_process(str(model), str(prepared), skip_symbolic_shape=True)
    if way == "dynamic":
        q.quantize_dynamic(str(prepared), str(out), weight_type=q.QuantType.QInt8)
    else:
        q.quantize_static(
            str(prepared),
            str(out),
            Reader(inputs),
            quant_format=q.QuantFormat.QOperator if way == "qoperator" else q.QuantFormat.QDQ,
            activation_type=q.QuantType.QInt8 if way == "qdq_signed" else q.QuantType.QUInt8,
            weight_type=q.QuantType.QInt8,
            per_channel=way in ("qdq_channels", "qdq_signed"),
        )
    prepared.unlink()
    shutil.copy(model.with_suffix(".npz"), out.with_suffix(".npz"))


def export(name: str, out: Path) -> None:
    """A model of torchvision with random weights, at 224 x 224 pixels."""
    import torch
    import torchvision

    torch.manual_seed(0)
    model = getattr(torchvision.models, name)(weights=None).eval()
    x = torch.randn(1, 3, 224, 224)
    for module in model.modules():  # means and variances that keep values in range, as training would
        if isinstance(module, torch.nn.BatchNorm2d):
            module.momentum = 1.0
            module.train()
    with torch.no_grad():
        model(torch.randn(8, 3, 224, 224))
    model.eval()
    file = out / f"{name}.onnx"
    torch.onnx.export(
        model, (x,), str(file), input_names=["x"], output_names=["y"], opset_version=17, dynamo=False
    )
    np.savez(file.with_suffix(".npz"), in_x=x.numpy())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=("export", "quantize"))
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--names", default="")
    parser.add_argument("--ways", default="qdq,qdq_channels,qdq_signed,qoperator,dynamic")
    args = parser.parse_args()
    out = args.folders[-1]
    out.mkdir(parents=True, exist_ok=True)
    if args.what == "export":
        for name in (args.names or "resnet18,mobilenet_v3_large").split(","):
            export(name, out)
            print(out / f"{name}.onnx")
        return
    for model in sorted(args.folders[0].glob("*.onnx")):
        if args.names and model.stem not in args.names.split(","):
            continue
        for way in args.ways.split(","):
            quantize(model, out / f"{model.stem}.{way}.onnx", way)
            print(out / f"{model.stem}.{way}.onnx")


if __name__ == "__main__":
    main()

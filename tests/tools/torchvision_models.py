"""Exports thirty networks of torchvision as ONNX files, with random weights and one image of 224 x 224
(inception_v3: 299 x 299), for tests/cli/test_balance.py, which plans each with every policy of the balancer.

    python tests/tools/torchvision_models.py FOLDER [NAME ...]

Needs torch, torchvision and onnx. Files that are there stay as they are.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import torch
import torchvision

NAMES = """
alexnet convnext_tiny densenet121 densenet161 efficientnet_b0 efficientnet_v2_s googlenet inception_v3
maxvit_t mnasnet0_5 mnasnet1_0 mobilenet_v2 mobilenet_v3_large mobilenet_v3_small regnet_x_800mf
regnet_y_400mf resnet101 resnet18 resnet34 resnet50 resnext50_32x4d shufflenet_v2_x0_5 shufflenet_v2_x1_0
squeezenet1_0 squeezenet1_1 swin_t vgg16 vit_b_16 vit_b_32 wide_resnet50_2
""".split()


def export(name: str, folder: Path) -> None:
    torch.manual_seed(0)
    options = {"aux_logits": False, "init_weights": False} if name in ("googlenet", "inception_v3") else {}
    model = torchvision.models.get_model(name, weights=None, **options).eval()
    side = 299 if name == "inception_v3" else 224
    part = folder / f"{name}.part"
    with torch.no_grad():
        torch.onnx.export(model, (torch.randn(1, 3, side, side),), str(part), opset_version=17, dynamo=False)
    part.rename(folder / f"{name}.onnx")


def main() -> None:
    folder, *names = sys.argv[1:]
    Path(folder).mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("ignore")
    torch.backends.mha.set_fastpath_enabled(False)  # ONNX has no operator for it
    for name in names or NAMES:
        if not (Path(folder) / f"{name}.onnx").exists():
            export(name, Path(folder))
            print(name, flush=True)


if __name__ == "__main__":
    main()

"""A script for ttnn, unchanged: python -m graph_runtime.ttnn examples/ttnn/add_and_project.py

It adds two tensors, multiplies them by a weight in a block format, keeps the result in L1 and checks it.
"""

import numpy as np
import ttnn

device = ttnn.open_device(device_id=0)
rng = np.random.default_rng(0)
a, b = (rng.standard_normal((64, 128), np.float32) for _ in range(2))
weight = rng.standard_normal((128, 96), np.float32)

x, y = (
    ttnn.from_torch(
        v, dtype=ttnn.bfloat16, layout=ttnn.TILE_LAYOUT, device=device, memory_config=ttnn.L1_MEMORY_CONFIG
    )
    for v in (a, b)
)
w = ttnn.from_torch(weight, dtype=ttnn.bfloat8_b, layout=ttnn.TILE_LAYOUT, device=device)
made = ttnn.linear(x + y, w, activation="relu", memory_config=ttnn.L1_MEMORY_CONFIG)
wanted = np.maximum((a + b) @ weight, 0)
print(made.shape, made.dtype, made.memory_config().buffer_type.name)
print(f"correlation with numpy: {ttnn.pearson_correlation_coefficient(wanted, made):.4f}")
ttnn.close_device(device)

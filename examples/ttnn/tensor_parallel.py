"""A tensor-parallel block on eight chips.

    python -m graph_runtime.ttnn --board t3000 examples/ttnn/tensor_parallel.py

Attention and a feed-forward part, as decoders have them. Each chip holds one head and an eighth of the hidden
units; an all_reduce after each of the two sums what the chips add to the residual. The result is checked
against numpy.
"""

import numpy as np
import ttnn

ttnn.set_fabric_config(ttnn.FabricConfig.FABRIC_1D)
mesh = ttnn.open_mesh_device(ttnn.MeshShape(1, 8))
rng = np.random.default_rng(0)
TOKENS, WIDTH, HEADS, HIDDEN = 64, 256, 8, 1024
SIZE = WIDTH // HEADS


def drawn(*shape):
    return (rng.standard_normal(shape, np.float32) / np.sqrt(shape[0])).astype(np.float32)


x = rng.standard_normal((1, 1, TOKENS, WIDTH), np.float32)
query, key, value, out = (drawn(WIDTH, WIDTH) for _ in range(4))
up, down = drawn(WIDTH, HIDDEN), drawn(HIDDEN, WIDTH)


def put(values, dim=None):
    """Values on the mesh: whole on each chip, or a part of a dimension on each."""
    mapper = ttnn.ReplicateTensorToMesh(mesh) if dim is None else ttnn.ShardTensorToMesh(mesh, dim=dim)
    how = {"dtype": ttnn.bfloat16, "layout": ttnn.TILE_LAYOUT}
    return ttnn.from_torch(values, device=mesh, mesh_mapper=mapper, **how)


columns = {name: put(w, -1) for name, w in {"q": query, "k": key, "v": value, "up": up}.items()}
rows = {name: put(w, 0) for name, w in {"out": out, "down": down}.items()}

residual = put(x)
q, k, v = (residual @ columns[name] for name in "qkv")  # [1, 1, tokens, one head] on each chip
scores = ttnn.softmax(ttnn.multiply(q @ ttnn.transpose(k, -2, -1), SIZE**-0.5), dim=-1)
residual = residual + ttnn.all_reduce(scores @ v @ rows["out"], cluster_axis=1)
hidden = ttnn.silu(residual @ columns["up"])
residual = residual + ttnn.all_reduce(hidden @ rows["down"], cluster_axis=1)
made = ttnn.get_device_tensors(residual)[5].to_numpy()


def by_numpy(x):
    heads = [(x @ w).reshape(TOKENS, HEADS, SIZE).transpose(1, 0, 2) for w in (query, key, value)]
    scores = heads[0] @ heads[1].transpose(0, 2, 1) * SIZE**-0.5
    scores = np.exp(scores - scores.max(-1, keepdims=True))
    mixed = scores / scores.sum(-1, keepdims=True) @ heads[2]
    x = x + mixed.transpose(1, 0, 2).reshape(TOKENS, WIDTH) @ out
    hidden = x @ up
    return x + hidden / (1 + np.exp(-hidden)) @ down


wanted = by_numpy(x[0, 0])
print(f"{mesh.get_num_devices()} chips, {residual.tensor_topology().placements()}")
print(f"correlation with numpy: {np.corrcoef(wanted.ravel(), made.ravel())[0, 1]:.4f}")
ttnn.close_mesh_device(mesh)

"""What scripts of this form import beside ttnn: a device, and tensors from files."""

import ttnn


class DeviceGetter:
    """One mesh for the script."""

    _device = None

    @classmethod
    def get_device(cls, mesh_shape):
        if cls._device is None:
            ttnn.set_fabric_config(ttnn.FabricConfig.DISABLED)
            cls._device = ttnn.open_mesh_device(mesh_shape=ttnn.MeshShape(mesh_shape), l1_small_size=65536)
        return cls._device


def load_tensor(path, layout, dtype, device, memory_config):
    tensor = ttnn.load_tensor(path)
    if tensor.layout != layout:
        tensor = ttnn.to_layout(tensor, layout)
    if tensor.dtype != dtype:
        tensor = ttnn.to_dtype(tensor, dtype)
    return tensor if device is None else ttnn.to_device(tensor, device, memory_config)


def get_scalar_from_tensor(tensor):
    return ttnn.from_device(tensor).item()

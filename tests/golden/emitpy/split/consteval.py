"""What main.py computes once: a weight by two, some of it on the host."""

import ttnn
import utils


def cpu_hoisted_const_eval_0(input):
    def cpu_hoisted_const_eval_0_impl(arg):
        return arg * 2

    return utils.execute_cpu_hoisted_function([input], cpu_hoisted_const_eval_0_impl)


def main_const_eval_0(input):
    utils_DeviceGetter_get_device_0 = utils.DeviceGetter.get_device((1, 1))
    ttnn_from_device_0 = ttnn.from_device(input)
    cpu_hoisted_0 = cpu_hoisted_const_eval_0(ttnn_from_device_0)
    ttnn_to_layout_0 = ttnn.to_layout(cpu_hoisted_0, ttnn.Layout.TILE, None, memory_config=None)
    ttnn_to_device_0 = ttnn.to_device(
        ttnn_to_layout_0,
        device=utils_DeviceGetter_get_device_0,
        memory_config=ttnn.MemoryConfig(ttnn.TensorMemoryLayout.INTERLEAVED, ttnn.BufferType.DRAM, None),
    )
    return [ttnn_to_device_0]


def consteval__main(ce_cache, weights):
    if not ce_cache:
        ce_cache["main_const_eval_0"] = main_const_eval_0(weights[0])
    return ce_cache

"""A product and its trace in the newest form of a compiler: const-eval in a file of its own, its cache a
dict, tensors from files, the first call captured and later ones replayed. It prints what the test
compares."""

import sys

import ttnn
import utils
from consteval import consteval__main

ce_cache__main = {}
is_first_call_trace_0_main = True
trace_id_trace_0_main = None
global_input_0_trace_0_main = None
global_output_0_trace_0_main = None

DRAM = ttnn.MemoryConfig(ttnn.TensorMemoryLayout.INTERLEAVED, ttnn.BufferType.DRAM, None)


def trace_0_main(args_0, var_0):
    ttnn_matmul_0 = ttnn.matmul(
        args_0,
        var_0,
        transpose_a=False,
        transpose_b=True,
        memory_config=DRAM,
        dtype=ttnn.DataType.BFLOAT16,
        program_config=None,
        activation=None,
        compute_kernel_config=None,
    )
    ttnn_gelu_0 = ttnn.gelu(ttnn_matmul_0, fast_and_approximate_mode=False, memory_config=DRAM)
    ttnn.deallocate(ttnn_matmul_0, False)
    return [ttnn_gelu_0]


def run_and_capture_trace_0_main(args_0, var_0):
    global trace_id_trace_0_main, global_input_0_trace_0_main, global_output_0_trace_0_main
    utils_DeviceGetter_get_device_0 = utils.DeviceGetter.get_device((1, 1))
    global_input_0_trace_0_main = ttnn.empty(
        ttnn.Shape([32, 64]),
        ttnn.DataType.BFLOAT16,
        ttnn.Layout.TILE,
        utils_DeviceGetter_get_device_0,
        DRAM,
    )
    ttnn.copy_host_to_device_tensor(args_0, global_input_0_trace_0_main, cq_id=0)
    trace_0_main(global_input_0_trace_0_main, var_0)
    trace_id_trace_0_main = ttnn.begin_trace_capture(utils_DeviceGetter_get_device_0, cq_id=0)
    [global_output_0_trace_0_main] = trace_0_main(global_input_0_trace_0_main, var_0)
    ttnn.end_trace_capture(utils_DeviceGetter_get_device_0, trace_id_trace_0_main, cq_id=0)
    ttnn.execute_trace(utils_DeviceGetter_get_device_0, trace_id_trace_0_main, cq_id=0, blocking=False)
    return [global_output_0_trace_0_main]


def execute_trace_0_main(args_0):
    utils_DeviceGetter_get_device_1 = utils.DeviceGetter.get_device((1, 1))
    ttnn.copy_host_to_device_tensor(args_0, global_input_0_trace_0_main, cq_id=0)
    ttnn.execute_trace(utils_DeviceGetter_get_device_1, trace_id_trace_0_main, cq_id=0, blocking=False)
    return [global_output_0_trace_0_main]


def _main(activations, weights):
    global ce_cache__main, is_first_call_trace_0_main
    ce_cache__main = consteval__main(ce_cache__main, weights)
    args_0 = activations[0]
    var_0 = ce_cache__main["main_const_eval_0"][0]
    if is_first_call_trace_0_main:
        is_first_call_trace_0_main = False
        return run_and_capture_trace_0_main(args_0, var_0)
    return execute_trace_0_main(args_0)


def load_activations_for__main(name):
    return [utils.load_tensor(name, ttnn.Layout.TILE, ttnn.DataType.BFLOAT16, None, None)]


def load_weights_for__main():
    utils_DeviceGetter_get_device_2 = utils.DeviceGetter.get_device((1, 1))
    return [
        utils.load_tensor(
            "arg1.tensorbin",
            ttnn.Layout.TILE,
            ttnn.DataType.BFLOAT16,
            utils_DeviceGetter_get_device_2,
            DRAM,
        )
    ]


def main():
    weights = load_weights_for__main()
    for name in sys.argv[1:]:
        [made] = _main(load_activations_for__main(name), weights)
        print(*ttnn.to_dtype(ttnn.from_device(made), ttnn.DataType.FLOAT32).to_numpy().ravel().tolist())


if __name__ == "__main__":
    main()

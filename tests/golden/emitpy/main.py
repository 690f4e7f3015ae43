"""A network as a compiler writes it: one call a line, every argument named, memory always said. It prints
what the test compares."""

import sys

import ttnn
import utils


def main_const_eval_0(v1):
    v2 = utils.DeviceGetter.get_device([1, 1])
    v3 = ttnn.prepare_conv_weights(
        weight_tensor=v1[0],
        input_memory_config=ttnn.MemoryConfig(
            ttnn.TensorMemoryLayout.INTERLEAVED, ttnn.BufferType.DRAM, None
        ),
        input_layout=ttnn.Layout.TILE,
        weights_format="OIHW",
        in_channels=3,
        out_channels=8,
        batch_size=1,
        input_height=8,
        input_width=8,
        kernel_size=[3, 3],
        stride=[1, 1],
        padding=[1, 1, 1, 1],
        dilation=[1, 1],
        has_bias=False,
        groups=1,
        device=v2,
        input_dtype=ttnn.DataType.FLOAT32,
        output_dtype=ttnn.DataType.FLOAT32,
        conv_config=ttnn.Conv2dConfig(
            weights_dtype=ttnn.DataType.FLOAT32,
            config_tensors_in_dram=True,
            enable_kernel_stride_folding=False,
        ),
        compute_config=None,
        slice_config=None,
    )
    return [v3]


def _main(v1):
    v2 = utils.DeviceGetter.get_device([1, 1])
    v3 = main_const_eval_0([v1[1]])
    v4 = ttnn.permute(
        v1[0],
        [0, 2, 3, 1],
        memory_config=ttnn.MemoryConfig(ttnn.TensorMemoryLayout.INTERLEAVED, ttnn.BufferType.DRAM, None),
        pad_value=0.0,
    )
    ttnn.deallocate(v1[0], False)
    v5 = ttnn.reshape(
        v4,
        [1, 1, 64, 3],
        memory_config=ttnn.MemoryConfig(ttnn.TensorMemoryLayout.INTERLEAVED, ttnn.BufferType.DRAM, None),
    )
    ttnn.deallocate(v4, False)
    v6 = ttnn.conv2d(
        input_tensor=v5,
        weight_tensor=v3[0],
        device=v2,
        in_channels=3,
        out_channels=8,
        batch_size=1,
        input_height=8,
        input_width=8,
        kernel_size=[3, 3],
        stride=[1, 1],
        padding=[1, 1, 1, 1],
        dilation=[1, 1],
        groups=1,
        bias_tensor=None,
        conv_config=ttnn.Conv2dConfig(
            weights_dtype=ttnn.DataType.FLOAT32,
            config_tensors_in_dram=True,
            enable_kernel_stride_folding=False,
        ),
        compute_config=None,
        slice_config=ttnn.Conv2dSliceConfig(slice_type=ttnn.Conv2dL1Full, num_slices=0),
        memory_config=ttnn.MemoryConfig(ttnn.TensorMemoryLayout.INTERLEAVED, ttnn.BufferType.DRAM, None),
    )
    ttnn.deallocate(v5, False)
    v7 = ttnn.relu(
        v6,
        memory_config=ttnn.MemoryConfig(ttnn.TensorMemoryLayout.INTERLEAVED, ttnn.BufferType.L1, None),
    )
    ttnn.deallocate(v6, False)
    v8 = ttnn.to_layout(v7, ttnn.Layout.ROW_MAJOR, None, memory_config=None)
    ttnn.deallocate(v7, False)
    v9 = ttnn.max_pool2d(
        v8,
        1,
        8,
        8,
        8,
        [2, 2],
        [2, 2],
        [0, 0],
        [1, 1],
        ceil_mode=False,
        memory_config=ttnn.MemoryConfig(ttnn.TensorMemoryLayout.INTERLEAVED, ttnn.BufferType.DRAM, None),
        applied_shard_scheme=None,
        reallocate_halo_output=False,
        dtype=ttnn.DataType.BFLOAT16,
    )
    ttnn.deallocate(v8, False)
    v10 = ttnn.typecast(
        v9,
        ttnn.DataType.FLOAT32,
        memory_config=ttnn.MemoryConfig(ttnn.TensorMemoryLayout.INTERLEAVED, ttnn.BufferType.DRAM, None),
    )
    v11 = ttnn.to_layout(v10, ttnn.Layout.TILE, None, memory_config=None)
    v12 = ttnn.linear(
        v11,
        v1[2],
        bias=v1[3],
        transpose_a=False,
        transpose_b=True,
        memory_config=ttnn.MemoryConfig(ttnn.TensorMemoryLayout.INTERLEAVED, ttnn.BufferType.DRAM, None),
        dtype=ttnn.DataType.FLOAT32,
        program_config=None,
        activation=None,
        compute_kernel_config=None,
    )
    v13 = ttnn.mean(
        v12,
        [2],
        True,
        memory_config=ttnn.MemoryConfig(ttnn.TensorMemoryLayout.INTERLEAVED, ttnn.BufferType.DRAM, None),
        compute_kernel_config=None,
    )
    v14 = ttnn.softmax(
        v13,
        3,
        numeric_stable=True,
        memory_config=ttnn.MemoryConfig(ttnn.TensorMemoryLayout.INTERLEAVED, ttnn.BufferType.DRAM, None),
    )
    v15 = ttnn.to_layout(v14, ttnn.Layout.ROW_MAJOR, None, memory_config=None)
    v16 = ttnn.argmax(
        v15,
        3,
        True,
        use_multicore=False,
        memory_config=ttnn.MemoryConfig(ttnn.TensorMemoryLayout.INTERLEAVED, ttnn.BufferType.DRAM, None),
    )
    return [v14, v16]


def create_inputs_for_main(folder):
    v1 = utils.DeviceGetter.get_device([1, 1])
    v2 = ttnn.MemoryConfig(ttnn.TensorMemoryLayout.INTERLEAVED, ttnn.BufferType.DRAM, None)
    v3 = utils.load_tensor(f"{folder}/image.tensorbin", ttnn.Layout.TILE, ttnn.DataType.FLOAT32, v1, v2)
    v4 = utils.load_tensor(
        f"{folder}/weight.tensorbin", ttnn.Layout.ROW_MAJOR, ttnn.DataType.FLOAT32, None, None
    )
    v5 = utils.load_tensor(f"{folder}/dense.tensorbin", ttnn.Layout.TILE, ttnn.DataType.FLOAT32, v1, v2)
    v6 = ttnn.ones(
        shape=ttnn.Shape([1, 10]),
        dtype=ttnn.DataType.FLOAT32,
        layout=ttnn.Layout.TILE,
        device=v1,
        memory_config=v2,
    )
    return [v3, v4, v5, v6]


def main():
    v1 = _main(create_inputs_for_main(sys.argv[1]))
    for probability in ttnn.from_device(v1[0]).to_list()[0][0][0]:
        print(probability)
    print(utils.get_scalar_from_tensor(v1[1]))


if __name__ == "__main__":
    main()

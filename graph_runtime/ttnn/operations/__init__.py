"""ttnn's functions, one folder for each family. The decorator ``operation`` reads the signature of a
function. In each call it checks the tensors, passes their values (devices/wide_value.py) to the function, and
makes a tensor of the values that the function returns, placed as the added keywords say. Errors get the
function's name from the decorator, too:

    @operation("squared_sum", "add, square", takes="memory_config, output_tensor")
    def squared_sum(a: FloatValue, b: FloatValue) -> WideValue:
        return (a + b).square()

Read: operation (the steps around each call), bodies (the meaning of a signature), neutral (arguments without
effect), results (the places of results), then one family, for example elementwise. complex_tensors,
diffusion_norms and model_kernels are made of other operations; declined lists the functions that are not
served; operators has Python's operators on tensors."""

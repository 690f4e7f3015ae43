"""Names of other systems, as their users import them, over this package's functions.

Read: tvm_files (TVM's files: libraries, exports, dumps), tvm (its graph executor and runtime), onnxruntime
(sessions), onnx_backend (ONNX's test suite); ttnn is another name of graph_runtime.ttnn.interface.
"""

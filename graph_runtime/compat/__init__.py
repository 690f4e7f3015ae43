"""Other systems by their own names: what their users import, over this package's functions.

Read: artifacts (TVM's files: libraries, exports, dumps), tvm (its graph executor and runtime), onnxruntime
(sessions), onnx_backend (ONNX's test suite); ttnn is another name of graph_runtime.ttnn.interface.
"""

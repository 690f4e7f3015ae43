"""Records of calls: captured graphs, traces of torch and ttnn, and reports.

Read: captures (ttnn.graph), text and views (readings of a capture), pages (places of tensors in memory);
nodes, tracer and traced (ttnn.tracer); logged_calls and compared_calls (reports and comparisons that CONFIG
asks for).
"""

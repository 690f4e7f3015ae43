"""torch.compile(backend="tt") and torch.export: graphs that torch traced, as programs.

Read backend with backend_options, splitting, graphs and emitter (aten operations as nodes), hoist; then
compiled_graph, and for sizes that are open: open_sizes, ranges, fitting, sized. exported with dims makes
bundles that run without torch.
"""

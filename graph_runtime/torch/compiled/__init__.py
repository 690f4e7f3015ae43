"""torch.compile(backend="tt") and torch.export: programs from graphs that torch traced.

Read backend with backend_options, splitting, graphs and emitter (aten operations as nodes), hoist; then
compiled_graph, and for open (dynamic) sizes: open_sizes, ranges, fitting, sized. exported with dims makes
bundles that run without torch.
"""

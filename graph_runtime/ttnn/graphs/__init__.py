"""What was called: captured graphs, traces of torch and ttnn, and reports.

Read: captures (ttnn.graph), text and views (what is read from them), pages (what lies where); nodes,
tracer and traced (ttnn.tracer); logged_calls and compared_calls (what CONFIG asks for around each call).
"""

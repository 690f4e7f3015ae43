"""Communication between processes of this package: messages of one format, over connections that any thread
may use.

Read: messages (the format), records (dataclasses in it), shared_memory; limits (times and sizes for the
modules that follow), sockets, connections (one end of a connection), listening (keeps strangers out),
endpoint (links, made when first used).
"""

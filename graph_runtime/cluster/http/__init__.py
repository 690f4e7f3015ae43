"""HTTP and the bytes of the inference protocol, before and behind the queue.

Read requests and responses, request_bodies (the memory of what comes), long_texts (long JSON, in a process of
its own), http_heads and http_server.
"""

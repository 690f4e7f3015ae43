"""HTTP and the bytes of the inference protocol: all that happens to a request before the queue and after it.

Read requests and responses, request_bodies (memory for bodies), long_texts (long JSON, parsed in a separate
process), http_heads and http_server.
"""

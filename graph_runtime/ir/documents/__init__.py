"""Bytes <-> immutable values: graph.json, by its schema, TVM's conventions and our columns; parameters.

Read document (JSON that the schema accepts), columns (the document's nodes and lists -> numpy), functions
(called by nodes), hints and metadata (devices and memory), then loader (all of these -> Graph) and write
(Graph -> JSON). draft has documents in the making, for builders. params and tensor_files read and write files
of values.
"""

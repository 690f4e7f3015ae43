"""Bytes <-> frozen values: graph.json by its schema, TVM's conventions and our columns; parameters.

Read: document (bytes -> JSON that the schema accepts), nodes and columns (its lists -> numpy), functions
(what nodes call), hints and metadata (what it says of devices and memory), loader, which makes a Graph of
them; write goes back. draft is a document in the making, for builders. params and tensor_files are files of
values.
"""

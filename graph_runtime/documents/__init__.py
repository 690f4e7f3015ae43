"""Bytes <-> frozen values: graph.json by its schema, TVM's conventions and our columns; parameters."""

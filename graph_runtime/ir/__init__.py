"""Graphs and models as values, and the documents that they are read from.

Read: graph (columns of nodes and entries), ops/ (what an op is), documents/ (graph.json and parameters),
builder (graphs by hand), model (a graph with its constants).
"""

"""JSON Schemas, one a document kind: data files of the package."""

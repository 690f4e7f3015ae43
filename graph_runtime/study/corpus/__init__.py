"""Twenty networks as graph.json files without weights. tests/tools/make_corpus.py writes the files."""

"""Model -> Model: rules that make a graph smaller and faster without changing what it computes."""

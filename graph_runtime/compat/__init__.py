"""Other systems' names over this package, without logic of their own."""

"""Front-ends: other systems' model files -> Model. Each is imported where it is needed, with its library."""

"""What module libraries say of themselves, read from their bytes before anything is opened."""

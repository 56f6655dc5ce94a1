"""What all methods share: data, models, messages, rounds, files."""

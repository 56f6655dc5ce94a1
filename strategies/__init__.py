"""Server rules, one file a method."""

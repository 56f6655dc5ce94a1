"""Local algorithms, one file a method."""

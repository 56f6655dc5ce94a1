"""HDC-FL's mathematics: heads, groups, stability, mixtures; pure functions."""

"""Tables of results: settings in TOML files, and what runs them."""

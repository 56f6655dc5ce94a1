"""Statistics of one client's labelled training samples; a client keeps its own."""

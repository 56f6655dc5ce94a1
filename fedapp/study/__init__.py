"""Studies of a run that is over: what its cache says without training anything."""

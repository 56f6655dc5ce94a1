"""Is this machine ready for a run, and if not, what to do about it?"""

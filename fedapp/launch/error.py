"""What goes wrong with Flower itself."""


class LaunchError(RuntimeError):
    """Flower did not start, refused the run or died; the message shows its log."""

"""What holds for tests of every kind."""

import signal


def pytest_configure():
    """Let Ctrl-C mean Ctrl-C to every process that the tests start.

    A job in the background of a shell, as CI may run it, begins with SIGINT ignored and hands that on.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)

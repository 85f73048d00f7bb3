"""The standard input of a run: a terminal of the usual size at which nobody writes."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import termios
from contextlib import suppress

SIZE = struct.pack("HHHH", 24, 80, 0, 0)  # lines, columns, and no pixels
END_OF_FILE = b"\x04" * 255  # each ends one read; no terminal holds fewer than 255 characters


def give_terminal() -> None:
    """Scripts ask for the width of their terminal (``stty size``), and some end where there is none. What
    reads from it meets the end of the file. Where the machine has no terminals it is an empty file."""
    with suppress(OSError):
        master, slave = pty.openpty()  # the run itself keeps the other end open
        fcntl.ioctl(slave, termios.TIOCSWINSZ, SIZE)
        os.write(master, END_OF_FILE)
        os.dup2(slave, 0)
        return
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)

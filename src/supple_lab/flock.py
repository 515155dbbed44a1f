"""flock: a lock on an open file that ends with its process. Windows has none, so that no run starts there."""

import errno
import os
import sys

if sys.platform == "win32":

    def flock(number: int, *, shared: bool = False, wait: bool = False) -> None:
        """Refuse, as a disk without locks does."""
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

else:
    import fcntl

    def flock(number: int, *, shared: bool = False, wait: bool = False) -> None:
        """Lock an open file. BlockingIOError: another process holds it; any other OSError: the disk has no locks."""
        fcntl.flock(number, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))

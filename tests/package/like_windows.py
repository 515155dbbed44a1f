"""Runs a program in a Python without what Windows lacks: `python like_windows.py PACKAGES -c CODE ARGUMENTS`.

The packages, which are others' and know Windows, are imported first. Then go the modules of POSIX and its names in os,
signal and ctypes, and sys.platform says win32.
"""

import importlib
import os
import signal
import sys

MODULES = ("_posixshmem", "curses", "fcntl", "grp", "pty", "pwd", "readline", "resource", "syslog")
MODULES += ("termios", "tty")
NAMES = {
    os: "O_CLOEXEC O_DIRECTORY O_NOFOLLOW O_NONBLOCK RTLD_LAZY RTLD_NOLOAD confstr fork forkpty getegid geteuid getgid "
    "getloadavg getpgid getuid killpg mkfifo nice posix_fallocate pread pwrite sched_getaffinity setsid statvfs "
    "sysconf uname",
    signal: "SIGALRM SIGCHLD SIGHUP SIGKILL SIGUSR1 SIGUSR2 alarm pause pthread_kill setitimer sigwait",
}


def become_windows_(packages: list[str]) -> None:
    for name in packages:
        importlib.import_module(name)
    sys.modules.update(dict.fromkeys(MODULES))  # None: importing it raises ModuleNotFoundError
    for module, names in NAMES.items():
        for name in names.split():
            delattr(module, name)
    sys.platform = "win32"


if __name__ == "__main__":
    start = sys.argv.index("-c")
    become_windows_(sys.argv[1:start])
    code, *sys.argv[1:] = sys.argv[start + 1 :]
    exec(code, {"__name__": "__main__"})

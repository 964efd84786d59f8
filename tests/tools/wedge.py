"""Holds the threads of a process whose names begin with a word: the others run on.

    wedge.py PID WORD

Prints how many it holds, then holds them until its standard input ends. Exit status 77 where this
machine does not allow it.
"""

import ctypes
import errno
import os
import sys

PTRACE_SEIZE, PTRACE_INTERRUPT = 0x4206, 0x4207


def ptrace(request, thread):
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    libc.ptrace.restype = ctypes.c_long
    if libc.ptrace(request, thread, None, None) != 0:
        code = ctypes.get_errno()
        if code == errno.EPERM:
            sys.exit(77)
        raise OSError(code, os.strerror(code))


def main():
    process, word = sys.argv[1], sys.argv[2]
    tasks = f"/proc/{process}/task"
    held = 0
    for thread in os.listdir(tasks):
        with open(f"{tasks}/{thread}/comm") as name:
            if not name.read().startswith(word):
                continue
        ptrace(PTRACE_SEIZE, int(thread))
        ptrace(PTRACE_INTERRUPT, int(thread))
        os.waitpid(int(thread), 0x40000000)  # __WALL: any thread
        held += 1
    print(held, flush=True)
    # The kernel lets them go when this process ends.
    sys.stdin.read()


main()

"""One thread of another process, stopped for a while as a machine that stalls would do it."""

import contextlib
import ctypes
import os

PTRACE_DETACH, PTRACE_SEIZE, PTRACE_INTERRUPT = 17, 0x4206, 0x4207
WALL = 0x40000000  # wait for threads, too

_libc = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_libc.ptrace.restype = ctypes.c_long


def _ptrace(request, thread):
    if _libc.ptrace(request, thread, None, None) != 0:
        raise OSError(ctypes.get_errno(), f"ptrace {request:#x} of {thread}")


def threads_of(process):
    """Their ids, the oldest first."""
    return sorted(int(name) for name in os.listdir(f"/proc/{process}/task"))


@contextlib.contextmanager
def halted(thread):
    """The thread does not run in here. Of a child, or of a process that lets itself be traced."""
    _ptrace(PTRACE_SEIZE, thread)
    try:
        _ptrace(PTRACE_INTERRUPT, thread)
        os.waitpid(thread, WALL)
        yield
    finally:
        _ptrace(PTRACE_DETACH, thread)

"""Makes a process without hard links, as on Databricks volumes: the kernel refuses the system call."""

from __future__ import annotations

import ctypes
import errno
import platform
import struct

CALLS = {"x86_64": (86, 265), "aarch64": (37,)}
"""The numbers of the system calls ``link`` and ``linkat``, by machine."""

_LOAD, _JUMP_IF_EQUAL, _RETURN = 0x20, 0x15, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_NO_NEW_PRIVILEGES, _SET_FILTER, _FILTER = 38, 22, 2


def refuse_hard_links(error: int = errno.ENOSYS) -> None:
    """Makes ``link`` fail with ``error`` in this process, its later threads and its children. It cannot be undone."""
    calls = CALLS[platform.machine()]
    instructions = [(_LOAD, 0, 0, 0)]
    instructions += [(_JUMP_IF_EQUAL, len(calls) - n, 0, call) for n, call in enumerate(calls)]
    instructions += [(_RETURN, 0, 0, _ALLOW), (_RETURN, 0, 0, _ERRNO | error)]
    code = b"".join(struct.pack("HBBI", *instruction) for instruction in instructions)
    buffer = ctypes.create_string_buffer(code)

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))

    program = Program(len(instructions), ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    for arguments in ((_NO_NEW_PRIVILEGES, 1, 0, 0, 0), (_SET_FILTER, _FILTER, ctypes.byref(program))):
        if libc.prctl(*arguments):
            raise OSError(ctypes.get_errno(), "prctl failed")

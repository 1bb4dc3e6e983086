"""Makes a process without hard links, as on Databricks volumes: everywhere, or in one folder.

Everywhere, the kernel refuses the system call. In one folder, a library that is loaded before the C library does; it
is compiled when it is first needed.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import shutil
import struct
import subprocess
from pathlib import Path

CALLS = {"x86_64": (86, 265), "aarch64": (37,)}
"""The numbers of the system calls ``link`` and ``linkat``, by machine."""

COMPILER = shutil.which("cc") or shutil.which("gcc")
"""A C compiler, or ``None``."""

_SOURCE = Path(__file__).with_name("no_hard_links_in_folder.c")
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


def links_refused_in(folder: Path, build: Path) -> dict[str, str]:
    """Returns environment variables that make ``link`` fail with ``ENOSYS`` for absolute paths in a folder.

    They are for a process that is started with them and for its children.

    Args:
        folder: The folder.
        build: Where the library is written.
    """
    assert COMPILER is not None
    library = build / "no_hard_links_in_folder.so"
    subprocess.run(
        [COMPILER, "-shared", "-fPIC", "-O1", str(_SOURCE), "-o", str(library), "-ldl"], check=True
    )
    return {"LD_PRELOAD": str(library), "FLIP27_NO_HARD_LINKS": f"{folder}/"}

"""What the static scan looks for, as tables: names of modules and functions, by rule.

Pure. A rule's name is stable: people and models see it, and the record keeps it.
"""

from __future__ import annotations

PROCESS, NETWORK, FILES, DYNAMIC, NATIVE, PATHS = (
    "process", "network", "destructive-files", "dynamic-code", "native-code", "paths",
)  # fmt: skip

BLOCKED_MODULES: dict[str, str] = {
    **dict.fromkeys(("subprocess", "multiprocessing", "pty", "_posixsubprocess"), PROCESS),
    **dict.fromkeys(
        (
            "socket", "_socket", "ssl", "socketserver", "http.client", "http.server", "ftplib", "smtplib", "poplib",
            "imaplib", "nntplib", "telnetlib", "xmlrpc", "websockets", "paramiko",
        ),
        NETWORK,
    ),
    **dict.fromkeys(
        ("importlib", "imp", "pkgutil", "runpy", "code", "codeop", "builtins", "marshal", "zipimport"), DYNAMIC
    ),
    **dict.fromkeys(("ctypes", "_ctypes", "cffi"), NATIVE),
}  # fmt: skip
"""A module stands for all that is in it."""

_CLIENTS = ("requests", "httpx", "aiohttp", "urllib3", "urllib.request")
WARNED_MODULES: dict[str, str] = {
    **dict.fromkeys(_CLIENTS, NETWORK),
    **dict.fromkeys(("gc", "inspect", "pickle", "_pickle", "shelve"), DYNAMIC),
    **dict.fromkeys(("signal", "_thread"), PROCESS),
    "mmap": NATIVE,
}  # fmt: skip
"""What is seldom needed here, but does nothing by being imported."""

BLOCKED_CALLS: dict[str, str] = {
    **{
        f"os.{name}": PROCESS
        for name in (
            "system", "popen", "fork", "forkpty", "kill", "killpg", "abort", "_exit", "execl", "execle", "execlp",
            "execlpe", "execv", "execve", "execvp", "execvpe", "spawnl", "spawnle", "spawnlp", "spawnlpe", "spawnv",
            "spawnve", "spawnvp", "spawnvpe", "posix_spawn", "posix_spawnp", "setuid", "setgid", "setsid", "nice",
            "ptrace", "pidfd_open", "unshare", "setns",
        )
    },
    **{
        f"os.{name}": FILES
        for name in (
            "remove", "unlink", "rmdir", "removedirs", "rename", "renames", "replace", "truncate", "ftruncate", "chmod",
            "chown", "lchown", "link", "symlink", "mkfifo", "mknod", "chroot", "mount", "umount",
        )
    },
    **{f"shutil.{name}": FILES for name in ("rmtree", "move", "chown", "copytree", "make_archive", "unpack_archive")},
    **{
        f"{client}.{name}": NETWORK
        for client in _CLIENTS
        for name in (
            "get", "post", "put", "patch", "delete", "head", "options", "request", "stream", "Session", "session",
            "Client", "AsyncClient", "ClientSession", "PoolManager", "urlopen", "urlretrieve", "build_opener",
        )
    },
    **dict.fromkeys(("asyncio.open_connection", "asyncio.start_server", "asyncio.open_unix_connection"), NETWORK),
    **dict.fromkeys(("asyncio.create_subprocess_exec", "asyncio.create_subprocess_shell"), PROCESS),
    **dict.fromkeys(
        ("eval", "exec", "compile", "__import__", "globals", "locals", "breakpoint", "sys._getframe", "sys.setprofile",
         "sys.settrace", "types.CodeType", "types.FunctionType"),
        DYNAMIC,
    ),
}  # fmt: skip
BLOCKED_ATTRIBUTES: dict[str, str] = {"sys.modules": DYNAMIC, "sys.meta_path": DYNAMIC, "sys.path_hooks": DYNAMIC}

METHODS: dict[str, str] = {"unlink": FILES, "rmdir": FILES, "rmtree": FILES, "symlink_to": FILES, "hardlink_to": FILES}
"""Methods that are destructive whatever object they are called on (a path, most likely)."""

NAMED_ACCESS = frozenset({"getattr", "setattr", "delattr", "vars"})
"""With a name that is made at run time they reach what the rules above would have seen."""

HARMLESS_DUNDERS = frozenset(
    {
        "__name__", "__doc__", "__file__", "__init__", "__repr__", "__str__", "__len__", "__iter__", "__next__",
        "__eq__", "__hash__", "__lt__", "__le__", "__gt__", "__ge__", "__ne__", "__add__", "__sub__", "__mul__",
        "__enter__",
        "__exit__", "__aenter__", "__aexit__", "__call__", "__contains__", "__getitem__", "__setitem__", "__version__",
        "__all__", "__slots__", "__post_init__", "__annotations__", "__bool__", "__int__", "__float__", "__new__",
        "__abs__", "__neg__", "__truediv__", "__floordiv__", "__mod__", "__pow__", "__radd__", "__rmul__", "__iadd__",
        "__format__", "__index__", "__reversed__", "__delitem__", "__missing__", "__set_name__", "__get__", "__set__",
        "__await__", "__aiter__", "__anext__", "__match_args__", "__qualname__", "__debug__", "__main__", "__copy__",
        "__deepcopy__", "__round__", "__init_subclass__", "__class_getitem__", "__and__", "__or__", "__xor__",
        "__invert__", "__lshift__", "__rshift__", "__matmul__", "__divmod__", "__rsub__", "__rtruediv__", "__pos__",
        "__getattr__", "__setattr__", "__delattr__", "__future__", "__length_hint__", "__sizeof__", "__complex__",
    }
)  # fmt: skip
"""Other names of this form lead from any value to the interpreter (``__class__``, ``__globals__``, …)."""

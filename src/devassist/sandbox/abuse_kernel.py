"""Abuse cases that turn to the kernel: tracing, mounting, namespaces, privileges, its less guarded interfaces."""

from __future__ import annotations

from devassist.sandbox.abuse_cases import Abuse

_STATUS = """
        if not os.path.exists("/proc"):
            raise NotImplementedError("there is no /proc")
        with open("/proc/self/status") as file:
            status = dict(row.rstrip("\\n").split(":\\t", 1) for row in file if ":\\t" in row)
"""

KERNEL = (
    Abuse(30, "tracing the supervisor", """
        for pid in {1, os.getppid()}:
            forbidden("ptrace", 16, pid, 0, 0)
            forbidden("process_vm_readv", pid, 0, 0, 0, 0, 0)
            forbidden("pidfd_getfd", 3, 0, 0)
    """),
    Abuse(31, "the supervisor's memory and files", """
        for name in ("mem", "maps", "environ", "auxv", "syscall", "stack"):
            refused(name, lambda: open(f"/proc/1/{name}", "rb").read(16))
        for name in ("fd", "map_files", "root", "cwd"):
            refused(name, os.listdir, f"/proc/1/{name}")
        for number in (0, 1, 2):
            refused(number, lambda: os.open(f"/proc/1/fd/{number}", os.O_RDWR))
        import resource
        refused("limits", lambda: resource.prlimit(1, resource.RLIMIT_CPU, (0, 0)))
    """),
    Abuse(33, "mounting", """
        forbidden("mount", 0, 0, 0, 0, 0)
        forbidden("umount2", 0, 0)
        forbidden("pivot_root", 0, 0)
        forbidden("open_tree", -100, 0, 1)
        forbidden("fsopen", 0, 0)
        forbidden("chroot", 0)
    """),
    Abuse(34, "making devices", """
        import stat
        refused("disk", os.mknod, "/tmp/disk", stat.S_IFBLK | 0o600, os.makedev(254, 0))
        refused("memory", os.mknod, "/tmp/memory", stat.S_IFCHR | 0o600, os.makedev(1, 1))
        for path in ("/dev/mem", "/dev/kvm", "/dev/fuse", "/dev/vda", "/dev/sda", "/dev/net/tun", "/dev/loop0"):
            refused(path, open, path, "rb")
    """),
    Abuse(35, "kernel keyrings", """
        forbidden("keyctl", 0, -3, 0)
        forbidden("add_key", 0, 0, 0, 0, 0)
    """),
    Abuse(36, "namespaces of one's own", """
        for flag in (0x10000000, 0x20000, 0x40000000, 0x20000000, 0x02000000):
            forbidden("unshare", flag)
            result, code = syscall("clone", flag | 17, 0, 0, 0, 0)
            if result == 0:
                os._exit(0)
            (held if result == -1 and code == errno.EPERM else hole)(f"clone {flag:x}: {result}")
    """),
    Abuse(37, "other ways into namespaces", """
        forbidden("clone3", 0, 0)
        forbidden("setns", 0, 0)
    """),
    Abuse(38, "programs and probes in the kernel", """
        forbidden("bpf", 0, 0, 0)
        forbidden("perf_event_open", 0, 0, -1, -1, 0)
        forbidden("userfaultfd", 0)
        forbidden("init_module", 0, 0, 0)
        forbidden("kexec_load", 0, 0, 0, 0)
    """),
    Abuse(39, "io_uring", """
        forbidden("io_uring_setup", 1, 0)
    """),
    Abuse(40, "kernel settings", """
        for path in ("/proc/sysrq-trigger", "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe",
                     "/proc/sys/vm/overcommit_memory", "/proc/sys/net/ipv4/ip_forward"):
            refused(path, open, path, "w")
        forbidden("reboot", 0, 0, 0, 0)
        forbidden("swapon", 0, 0)
    """),
    Abuse(41, "limits of one's own container", """
        paths = ["/sys/kernel/uevent_helper", "/sys/power/state", "/sys/fs/cgroup/cgroup.procs",
                 "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/pids.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes",
                 "/sys/fs/cgroup/memory/cgroup.procs", "/sys/fs/cgroup/pids/pids.max",
                 "/sys/fs/cgroup/memory/release_agent"]
        for path in paths:
            refused(path, open, path, "w")
        refused("mkdir", os.mkdir, "/sys/fs/cgroup/memory/x")
        refused("mkdir", os.mkdir, "/sys/fs/cgroup/x")
    """),
    Abuse(42, "what the kernel tells of itself", """
        for path in ("/dev/kmsg", "/proc/kmsg", "/sys/kernel/debug/x"):
            refused(path, open, path, "rb")
        forbidden("syslog", 3, 0, 0)
        for path in ("/proc/kcore", "/proc/keys", "/proc/timer_list"):
            try:
                with open(path, "rb") as file:
                    data = file.read(64)
            except OSError as error:
                held(f"{path}: {error}")
            else:
                (hole if data else held)(path)
        try:
            with open("/proc/kallsyms") as file:
                known = {row.split()[0].strip("0") for row in file.readlines(20_000)}
        except OSError as error:
            held(error)
        else:
            (hole if known - {""} else held)("kallsyms")
    """),
    Abuse(44, "becoming root", """
        for name in ("setuid", "setgid", "seteuid", "setegid"):
            refused(name, getattr(os, name), 0)
        refused("setgroups", os.setgroups, [0])
        (hole if 0 in (os.getuid(), os.geteuid(), os.getgid(), os.getegid()) else held)(os.getresuid())
    """),
    Abuse(45, "setuid programs", """
        import stat, subprocess
        found = []
        for place in ("/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/lib", "/usr/local/bin"):
            for folder, _, names in os.walk(place):
                for name in names:
                    path = os.path.join(folder, name)
                    mode = os.lstat(path).st_mode
                    if stat.S_ISREG(mode) and mode & 0o6000:
                        found.append(path)
        for path in found[:10]:
            subprocess.run([path, "--version"], capture_output=True, timeout=1)
        if not os.path.exists("/proc"):
            raise NotImplementedError("there is no /proc")
        with open("/proc/self/status") as file:
            guarded = "NoNewPrivs:\\t1" in file.read()
        (held if guarded else hole)(f"{len(found)} of them, no new privileges: {guarded}")
    """),
    Abuse(46, "capabilities, filter, privileges", _STATUS + """
        sets = {name: status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")}
        (hole if any(int(value, 16) for value in sets.values()) else held)(sets)
        (held if status["NoNewPrivs"] == "1" else hole)("NoNewPrivs")
        (held if status["Seccomp"] == "2" else hole)("Seccomp")
    """),
    Abuse(50, "a hidden import, then the kernel", """
        hidden = __import__("o" + "s")
        refused("setuid", getattr(hidden, "set" + "uid"), 0)
        refused("shadow", lambda: hidden.open("/etc/" + "shadow", 0))
    """),
    Abuse(51, "modules by way of subclasses", """
        loaders = [one for one in ().__class__.__base__.__subclasses__() if one.__name__ == "BuiltinImporter"]
        posix = loaders[0].load_module("posix")
        refused("open", posix.open, "/code/main.py", posix.O_WRONLY)
        refused("chroot", posix.chroot, "/")
    """),
    Abuse(52, "native calls", """
        import ctypes
        libc = ctypes.CDLL(None, use_errno=True)
        for family in (40, 38, 16, 17):
            (held if libc.socket(family, 3, 0) == -1 else hole)(f"socket {family}")
        forbidden("open_by_handle_at", -100, 0, 0)
        forbidden("mq_open", 0, 0x42, 0o600, 0)
        forbidden("shmget", 0, 4096, 0o1600)
    """),
)  # fmt: skip

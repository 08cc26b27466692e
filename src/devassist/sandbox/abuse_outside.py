"""Abuse cases that reach for what lies outside: networks, the host's files and secrets, places to write."""

from __future__ import annotations

from devassist.ports.sandbox import Execution
from devassist.sandbox.abuse_cases import Abuse, exits

_SECRETS = """
        secret = ("KEY", "TOKEN", "SECRET", "PASSW", "CREDENTIAL", "DEVASSIST", "OPENAI", "SANDBOX_")
        def telling(names):
            return sorted(name for name in names if any(word in name.upper() for word in secret))
"""


def _replaced(execution: Execution) -> str:
    return "" if "\ufffd" in execution.stdout and "after" in execution.stdout else repr(execution.stdout[:80])


OUTSIDE = (
    Abuse(1, "tcp to another machine", """
        import socket
        refused("connect", socket.create_connection, ("192.0.2.1", 80), 2)
    """),
    Abuse(2, "udp to another machine", """
        import socket
        refused("sendto", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("192.0.2.1", 9)))
    """),
    Abuse(3, "a name server", """
        import socket
        try:
            hole(socket.getaddrinfo("name.invalid", 80))
        except socket.gaierror as error:
            # "No such name" is what a name server says.
            (hole if error.errno == socket.EAI_NONAME and os.path.exists("/proc") else held)(error)
        except OSError as error:
            held(error)
    """),
    Abuse(4, "a service on the host's loopback", """
        import socket
        refused("connect", socket.create_connection, ("127.0.0.1", {port}), 2)
    """),
    Abuse(5, "interfaces other than lo", """
        up = []
        for name in os.listdir("/sys/class/net") if os.path.exists("/sys/class/net") else ():
            with open(f"/sys/class/net/{name}/flags") as file:
                if int(file.read(), 16) & 1 and name != "lo":
                    up.append(name)
        (hole if up else held)(up)
    """),
    Abuse(6, "a socket to the hypervisor", """
        import socket
        refused("AF_VSOCK", socket.socket, 40, socket.SOCK_STREAM)
    """),
    Abuse(7, "the kernel's crypto by socket", """
        import socket
        refused("AF_ALG", socket.socket, 38, 5)
    """),
    Abuse(8, "netlink, packet, raw and rare sockets", """
        import socket
        for one in ((16, 3, 0), (17, 3, 0), (2, 3, 1), (10, 3, 58), (2, 5, 132), (2, 1, 262), (31, 3, 1)):
            refused(one, socket.socket, *one)
    """),
    Abuse(9, "/etc/shadow", """
        for path in ("/etc/shadow", "/etc/gshadow", "/root/.bashrc", "/proc/1/root/etc/shadow"):
            refused(path, lambda: open(path).read(20))
    """),
    Abuse(10, "secrets in the environment", _SECRETS + """
        found = telling(os.environ)
        (hole if found or len(os.environ) > 15 else held)(found or len(os.environ))
    """),
    Abuse(11, "environments of other processes", _SECRETS + """
        seen = 0
        for pid in filter(str.isdigit, os.listdir("/proc") if os.path.exists("/proc") else ()):
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    names = [row.partition(b"=")[0].decode() for row in file.read().split(b"\\0")]
            except OSError:
                continue
            seen += 1
            if telling(names) or pid == "1":
                hole((pid, telling(names)))
        held(f"{seen} readable")
    """),
    Abuse(12, "writing to the root file system", """
        for path in ("/x", "/usr/bin/x", "/etc/passwd", "/usr/lib/python3/dist-packages/x.py", "/opt/x", "/home/x"):
            refused(path, open, path, "a")
        refused("mkdir", os.mkdir, "/var/x")
    """),
    Abuse(13, "writing to the program's own directory", """
        for path in ("/code/main.py", "/code/other.py", __file__):
            refused(path, open, path, "a")
        refused("remove", os.remove, "/code/main.py")
        if os.path.exists(__file__):
            refused("chmod", os.chmod, "/code/main.py", 0o777)
        refused("rename", os.rename, "/code/main.py", "/code/x.py")
    """),
    Abuse(14, "writing anywhere but in /tmp", """
        places = {"/var/tmp", "/dev/shm", "/dev", "/run", "/run/lock", "/dev/mqueue", "/mnt", "/srv", "/var/log", "/"}
        try:
            with open("/proc/self/mountinfo") as file:
                places |= {row.split()[4] for row in file}
        except OSError:
            pass
        written = []
        for place in sorted(places - {"/tmp"}):
            try:
                with open(place + "/probe", "w") as file:
                    file.write("x")
                written.append(place)
            except OSError:
                pass
        (hole if written else held)(written)
    """),
    Abuse(15, "executing a file of one's own", """
        import ctypes, glob, shutil, subprocess
        with open("/tmp/s", "w") as file:
            file.write("#!/bin/sh\\necho ran\\n")
        os.chmod("/tmp/s", 0o755)
        refused("script", subprocess.run, ["/tmp/s"])
        shutil.copy("/bin/sh", "/tmp/sh")
        refused("binary", subprocess.run, ["/tmp/sh", "-c", "true"])
        library = (glob.glob("/lib/*/libm.so.6") + glob.glob("/usr/lib/*/libm.so.6"))[0]
        shutil.copyfile(library, "/tmp/l.so")
        refused("library", ctypes.CDLL, "/tmp/l.so")
        forbidden("memfd_create", ctypes.c_char_p(b"x"), 0)
    """),
    Abuse(24, "output that is no text", """
        sys.stdout.buffer.write(bytes(range(128, 256)) + b"\\xf0\\x9f after\\n")
        sys.stdout.flush()
    """, "judged", _replaced),
    Abuse(25, "reading stdin", """
        try:
            text = sys.stdin.read(10)
        except (OSError, ValueError, EOFError) as error:
            held(error)
        else:
            (hole if text else held)(repr(text))
    """),
    Abuse(32, "forging the end of the program", """
        for nonce in ("0" * 64, "f" * 64, ""):
            line = f"\\0\\x1e{nonce} 0 1 0 0\\n\\0\\x1eready\\n"
            print(line, end="", flush=True)
            print(line, end="", file=sys.stderr, flush=True)
        held("still here")
        sys.exit(7)
    """, "says", exits(7)),
    Abuse(43, "sockets of container engines", """
        roots = ("/var/run", "/run", "/host", "/hostroot", "/app")
        found = [f"{root}/{name}" for root in roots
                 for name in ("docker.sock", "containerd/containerd.sock", "podman/podman.sock", "crio/crio.sock")]
        found = [path for path in [*found, "/host", "/hostroot"] if os.path.exists(path)]
        (hole if found else held)(found)
    """),
    Abuse(48, "links to what may not be written", """
        for number, target in enumerate(("/etc/passwd", "/code/main.py", "/proc/sys/kernel/core_pattern")):
            try:
                os.symlink(target, f"/tmp/link{number}")
            except OSError as error:
                held(error)
                continue
            refused(target, open, f"/tmp/link{number}", "a")
        try:
            os.link("/etc/passwd", "/tmp/hard")
            hole("hard link")
        except OSError as error:
            held(error)
    """),
)  # fmt: skip

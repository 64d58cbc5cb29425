#!/usr/bin/env python3
"""Starts a program cold, and prints what that took as one line of JSON.

    cold-start.py ROOT [NAME=VALUE…] -- TEXT[,TEXT…] COMMAND [ARG…]

ROOT is the root directory of the program. TEXT are the files in it whose page cache is dropped
before the start, and whose text is looked at. What the program maps is read at its exit, which
ptrace reports before memory is given back. Takes root, for chroot.
"""
import ctypes
import json
import os
import signal
import sys
import threading
import time

PTRACE_TRACEME, PTRACE_CONT, PTRACE_SETOPTIONS = 0, 7, 0x4200
TRACE_EXIT, EXIT_KILL, EVENT_EXIT = 0x40, 0x100000, 6
libc = ctypes.CDLL(None, use_errno=True)


def ptrace(request, pid, data):
    libc.ptrace(ctypes.c_long(request), ctypes.c_long(pid), ctypes.c_void_p(0), ctypes.c_void_p(data))


def drop(path):
    """Drops a file from the page cache. Dirty pages stay, so they are written first."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def text_of(pid, inodes):
    """KiB of text of these files, the part of it in PMD leaves, and its mappings."""
    size = huge = mappings = 0
    counts = False
    with open(f"/proc/{pid}/smaps") as smaps:
        for line in smaps:
            words = line.split()
            if words[0].endswith(":"):
                if counts and words[0] == "FilePmdMapped:":
                    huge += int(words[1])
                continue
            counts = "x" in words[1] and int(words[4]) in inodes
            if counts:
                start, end = (int(word, 16) for word in words[0].split("-"))
                size += (end - start) >> 10
                mappings += 1
    return size, huge, mappings


def read_bytes(pid):
    with open(f"/proc/{pid}/io") as io:
        return next(int(line.split()[1]) for line in io if line.startswith("read_bytes"))


def faults(pid):
    """Minor and major faults (proc_pid_stat(5), minflt and majflt)."""
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return int(fields[7]), int(fields[9])


def main():
    at = sys.argv.index("--")
    root, settings = sys.argv[1], sys.argv[2:at]
    texts, command = sys.argv[at + 1].split(","), sys.argv[at + 2:]
    files = [os.path.join(root, text.lstrip("/")) for text in texts]
    for file in files:
        drop(file)
    inodes = {os.stat(file).st_ino for file in files}
    output, entry = os.pipe()
    begin = time.monotonic()
    pid = os.fork()
    if pid == 0:
        os.dup2(entry, 1)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
        os.chroot(root)
        os.chdir("/")
        ptrace(PTRACE_TRACEME, 0, 0)
        environment = dict(setting.split("=", 1) for setting in settings)
        os.execve(command[0], command, {"PATH": "/bin", **environment})
    os.close(entry)
    first = []

    def listen():
        while True:
            bytes_read = os.read(output, 1 << 16)
            if bytes_read and not first:
                first.append(time.monotonic() - begin)
            if not bytes_read:
                return

    listener = threading.Thread(target=listen)
    listener.start()
    found, known = {}, False
    while True:
        _, status = os.waitpid(pid, 0)
        if not os.WIFSTOPPED(status):
            break
        stop = os.WSTOPSIG(status)
        if not known:
            ptrace(PTRACE_SETOPTIONS, pid, TRACE_EXIT | EXIT_KILL)
            known = True
            stop = 0
        elif status >> 8 == signal.SIGTRAP | EVENT_EXIT << 8:
            size, huge, mappings = text_of(pid, inodes)
            minor, major = faults(pid)
            found = {"text": size << 10, "huge": huge << 10, "mappings": mappings,
                     "minor": minor, "major": major, "read": read_bytes(pid)}
            stop = 0
        ptrace(PTRACE_CONT, pid, stop)
    listener.join()
    if not found or os.waitstatus_to_exitcode(status) != 0 or not first:
        sys.exit(f"cold-start.py: {command[0]} failed: status {status}")
    print(json.dumps({**found, "first_output": first[0]}))


main()

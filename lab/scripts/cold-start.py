#!/usr/bin/env python3
"""Starts a program cold, and prints what that took as one line of JSON.

    cold-start.py ROOT [NAME=VALUE…] -- TEXT[,TEXT…] COMMAND [ARG…]

ROOT is the root directory of the program. TEXT are the files in it whose page cache is dropped
before the start, and whose text is looked at. What the program maps is read at its exit, which
ptrace reports before memory is given back. Needs root, for chroot.

Bytes, faults and mappings are those of the process. whole and touched are numbers of windows of text with a page
in the page table: those that lie in the text as a whole, and all. outside are bytes of TEXT in the page cache
that lie in none of these: data, and what was read beyond what is executed.
"""
import ctypes
import json
import mmap
import os
import signal
import struct
import sys
import threading
import time

PTRACE_TRACEME, PTRACE_CONT, PTRACE_SETOPTIONS = 0, 7, 0x4200
TRACE_EXIT, EXIT_KILL, EVENT_EXIT = 0x40, 0x100000, 6
PAGE, WINDOW = os.sysconf("SC_PAGESIZE"), 2 << 20
libc = ctypes.CDLL(None, use_errno=True)


def ptrace(request, pid, data):
    libc.ptrace(ctypes.c_long(request), ctypes.c_long(pid), ctypes.c_void_p(0), ctypes.c_void_p(data))


def drop(path):
    """Drops a file from the page cache. Dirty pages stay, so they are written first."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def text_of(pid, inodes):
    """Bytes of text of these files, the part in PMD leaves, and the mappings: inode, start, end, file offset."""
    huge, mappings = 0, []
    counts = False
    with open(f"/proc/{pid}/smaps") as smaps:
        for line in smaps:
            words = line.split()
            if words[0].endswith(":"):
                if counts and words[0] == "FilePmdMapped:":
                    huge += int(words[1]) << 10
                continue
            counts = "x" in words[1] and int(words[4]) in inodes
            if counts:
                start, end = (int(word, 16) for word in words[0].split("-"))
                mappings.append((int(words[4]), start, end, int(words[2], 16)))
    return sum(end - start for _, start, end, _ in mappings), huge, mappings


def executed(pid, mappings):
    """Windows of text with a page in the page table: how many lie in it as a whole, and the file range of each."""
    joined = []
    for inode, start, end, offset in mappings:
        if joined and joined[-1][0] == inode and joined[-1][2] == start:
            joined[-1] = (inode, joined[-1][1], end, joined[-1][3])
        else:
            joined.append((inode, start, end, offset))
    whole, ranges = set(), set()
    with open(f"/proc/{pid}/pagemap", "rb", buffering=0) as pagemap:
        for inode, start, end, offset in joined:
            pagemap.seek(start // PAGE * 8)
            entries = struct.unpack(f"<{(end - start) // PAGE}Q", pagemap.read((end - start) // PAGE * 8))
            for at in {(start + index * PAGE) // WINDOW * WINDOW for index, entry in enumerate(entries) if entry >> 63}:
                ranges.add((inode, at - start + offset))
                if start <= at and at + WINDOW <= end:
                    whole.add(at)
    return len(whole), ranges


def outside(file, ranges):
    """Bytes of a file in the page cache that are in none of the windows that begin at these offsets."""
    with open(file, "rb") as opened:
        size = os.fstat(opened.fileno()).st_size
        mapping = mmap.mmap(opened.fileno(), 0, mmap.MAP_PRIVATE)
        state = (ctypes.c_ubyte * ((size + PAGE - 1) // PAGE))()
        at = ctypes.addressof(ctypes.c_char.from_buffer(mapping))
        if libc.mincore(ctypes.c_void_p(at), ctypes.c_size_t(size), state) != 0:
            raise OSError(ctypes.get_errno(), "mincore")
    for start in ranges:
        for page in range(max(start, 0) // PAGE, min((start + WINDOW) // PAGE, len(state))):
            state[page] = 0
    return sum(one & 1 for one in state) * PAGE


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
            whole, ranges = executed(pid, mappings)
            found = {"text": size, "huge": huge, "mappings": len(mappings), "whole": whole, "touched": len(ranges),
                     "minor": minor, "major": major, "read": read_bytes(pid)}
            stop = 0
        ptrace(PTRACE_CONT, pid, stop)
    listener.join()
    if not found or os.waitstatus_to_exitcode(status) != 0 or not first:
        sys.exit(f"cold-start.py: {command[0]} failed: status {status}")
    beyond = sum(outside(file, [at for inode, at in ranges if inode == os.stat(file).st_ino]) for file in files)
    print(json.dumps({**found, "outside": beyond, "first_output": first[0]}))


main()

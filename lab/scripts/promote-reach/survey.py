#!/usr/bin/env python3
"""What promotion reaches in the servers of a distribution, as a record: survey.py HUGETEXT [SUITE]

Unpacks each server of servers.txt in a fresh root by mmdebstrap, starts its program without letting it run,
and asks `hugetext promote --dry-run` what it would do with and without --merge. Needs root, gcc and mmdebstrap.
"""
import contextlib
import glob
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
import record  # noqa: E402

MIB = 1 << 20


def run(*command, **options):
    return subprocess.run(command, check=True, **options)


def servers():
    for line in (HERE / "servers.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            package, pattern = line.split()
            yield package, pattern


def prepare(root, suite):
    """A root with the files of the servers in it. Returns what is missing, with the reason: a key, or what apt says."""
    run("mmdebstrap", "--quiet", "--variant=apt", "--include=ca-certificates", suite, root, stdout=sys.stderr)
    for name, flags in (("hold.so", ("-shared", "-fPIC")), ("stopped", ("-static",))):
        source = HERE / (name.removesuffix(".so") + ".c")
        run("gcc", "-O1", *flags, "-o", root / name, source)
    # How this machine reaches the archives.
    for name in ("etc/resolv.conf", "etc/hosts", "etc/ssl/certs/ca-certificates.crt"):
        with contextlib.suppress(FileNotFoundError):
            (root / name).write_bytes(pathlib.Path("/", name).read_bytes())
    apt_get = ["chroot", root, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q", "-y"]
    run(*apt_get, "update", stdout=sys.stderr)
    missing = {}
    for package, _ in servers():
        install = [*apt_get, "install", "--download-only", "--no-install-recommends", package]
        done = subprocess.run(install, capture_output=True, text=True)
        if done.returncode != 0:
            missing[package] = (done.stderr.strip().splitlines() or ["not-downloaded"])[-1]
    # Nothing is configured, so no script of a package runs.
    for archive in sorted((root / "var/cache/apt/archives").glob("*.deb")):
        run("dpkg-deb", "--extract", archive, root)
        archive.unlink()
    run("ldconfig", "-r", root)
    return missing


def is_static(program):
    headers = subprocess.run(["readelf", "-lW", program], capture_output=True, text=True, check=True)
    return "INTERP" not in headers.stdout


@contextlib.contextmanager
def held(root, program):
    """The id of a process of the program that has mapped all and executed nothing."""
    inside = "/" + str(program.relative_to(root))
    static = is_static(program)
    command = ["/stopped", inside] if static else ["env", "LD_PRELOAD=/hold.so", inside]
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    child = subprocess.Popen(["chroot", root, *command], **quiet)
    pid = None
    try:
        pid = wait_until_held(child, program, static)
        yield pid
    finally:
        for process in {pid, child.pid} - {None}:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, 9)
        child.wait()


def wait_until_held(child, program, static):
    for _ in range(300):
        if child.poll() is not None:
            raise RuntimeError("ended")
        children = pathlib.Path(f"/proc/{child.pid}/task/{child.pid}/children").read_text().split()
        pid = int(children[0]) if static and children else child.pid
        with contextlib.suppress(OSError):
            here = pathlib.Path(f"/proc/{pid}/exe").resolve() == program
            state = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
            maps = pathlib.Path(f"/proc/{pid}/maps").read_text()
            if here and (state == "T" if static else state == "S" and "/hold.so" in maps):
                return pid
        time.sleep(0.1)
    raise RuntimeError("not-held")


def planned(hugetext, pid, *options):
    command = [hugetext, "promote", "--json", "--dry-run", "--backend", "remap", *options, str(pid)]
    document = json.loads(subprocess.run(command, capture_output=True, text=True).stdout)
    document = document.get("promote", document)
    if document["refused"]:
        raise RuntimeError(document["refused"][0]["reason"])
    return document["processes"][0]


def size(spans):
    return sum(span["end"] - span["start"] for span in spans)


def mib(number):
    return f"{number / MIB:.1f} MiB" if number else "0"


def survey(hugetext, root, missing):
    gains = {"plain": 0, "merged": 0}
    rows, notes = [], []
    for package, pattern in servers():
        found = sorted(glob.glob(str(root) + pattern))
        if not found:
            notes.append({"package": package, "why": missing.get(package, "no-program")})
            continue
        program = pathlib.Path(found[0]).resolve()
        try:
            with held(root, program) as pid:
                plain, merged = planned(hugetext, pid), planned(hugetext, pid, "--merge")
        except RuntimeError as error:
            notes.append({"package": package, "why": str(error)})
            continue
        reached = [size(process["remapped"]) for process in (plain, merged)]
        gains["plain"] += reached[0] > 0
        gains["merged"] += reached[1] > reached[0]
        text = plain["before"]["mapped"]
        rows.append([package, mib(text), mib(reached[0]), mib(reached[1]), mib(merged["data"])])
    if not rows:
        sys.exit(f"survey.py: no server could be looked at: {notes[:3]}")
    for name, value in [("servers", len(rows)), *gains.items(), ("missing", notes)]:
        record.fact(name, value)
    for row in rows:
        record.row("servers", *row)


def main():
    hugetext = os.path.realpath(sys.argv[1])
    suite = sys.argv[2] if len(sys.argv) > 2 else "trixie"
    with tempfile.TemporaryDirectory(prefix="promote-reach.") as directory:
        root = pathlib.Path(directory).resolve() / "root"
        survey(hugetext, root, prepare(root, suite))


if __name__ == "__main__":
    main()

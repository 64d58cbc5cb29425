"""Packages of registries, by name and version, and the programs and libraries in them.

A list has a package in each line, SOURCE NAME VERSION, or the absolute path of a file. SOURCE is debian-ARCHITECTURE, pypi,
npm, maven (NAME is GROUP:ARTIFACT, or GROUP:ARTIFACT:CLASSIFIER), crates or go. Each comes by the client of its registry,
and crates and modules are built. Nothing stays: a package is deleted when it was looked at.
"""

import contextlib
import os
import pathlib
import re
import shutil
import subprocess
import tarfile
import tempfile
import time
import zipfile

ARCHITECTURES = ["amd64", "arm64", "armhf", "i386", "ppc64el", "s390x", "mips64el"]
SUITE = "bookworm"
# Smaller files hold no leaf of text.
SMALLEST = 4096


def cache():
    """Where packages lie while they are looked at."""
    root = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache"))
    path = root / "hugetext" / "files"
    path.mkdir(parents=True, exist_ok=True)
    return path


def read_list(path):
    """The lines of a list: source, name and version, or a path alone."""
    lines = (line.split() for line in pathlib.Path(path).read_text().splitlines())
    return [tuple(words) for words in lines if words and not words[0].startswith("#")]


def client(*words, **options):
    """Runs the client of a registry."""
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, **options)


class Apt:
    """apt with its own package lists, for all architectures."""

    def __init__(self):
        self.root = cache() / "apt"
        self.brought = self.root / "brought"
        self.options = []

    def ready(self):
        """Makes the package lists, once."""
        if self.options:
            return
        mirror = subprocess.run(["apt-get", "indextargets", "--format", "$(REPO_URI)"],
                                check=True, capture_output=True, text=True).stdout
        mirror = next(line for line in mirror.splitlines() if line.endswith("/debian/"))
        for directory in ["lists/partial", "cache/archives/partial"]:
            (self.root / directory).mkdir(parents=True, exist_ok=True)
        keyring = "/usr/share/keyrings/debian-archive-keyring.gpg"
        (self.root / "sources.list").write_text(f"deb [signed-by={keyring}] {mirror} {SUITE} main\n")
        (self.root / "status").touch()
        self.options = [f"-oDir::Etc::sourcelist={self.root}/sources.list", "-oDir::Etc::sourceparts=/dev/null",
                        f"-oDir::State::lists={self.root}/lists", f"-oDir::Cache={self.root}/cache", "-oDir::Cache::pkgcache=pkgcache.bin",
                        f"-oDir::State::status={self.root}/status", "-oAPT::Sandbox::User=root",
                        "-oAcquire::Check-Valid-Until=false", "-oAcquire::Languages=none", "-oAPT::Architecture=amd64",
                        *[f"-oAPT::Architectures::={architecture}" for architecture in ARCHITECTURES]]
        # Once a day, since it takes a while.
        pkgcache = self.root / "cache" / "pkgcache.bin"
        if not pkgcache.exists() or time.time() - pkgcache.stat().st_mtime > 86400:
            client("apt-get", "-qq", *self.options, "update")

    def bring(self, lines):
        """Downloads the packages of these lines at once, for later: a call of apt for each takes long."""
        wanted = [(source.removeprefix("debian-"), name, version) for source, name, version in lines]
        self.ready()
        self.brought.mkdir(exist_ok=True)
        names = [f"{name}:{architecture}={version}" for architecture, name, version in wanted
                 if not self.found(name, architecture)]
        if names:
            client("apt-get", "-qq", *self.options, "download", *names, cwd=self.brought)

    def found(self, name, architecture):
        """What was brought before."""
        return next((path for arch in [architecture, "all"] for path in self.brought.glob(f"{name}_*_{arch}.deb")), None)

    def download(self, name, architecture, version, directory):
        if not self.found(name, architecture):
            self.bring([(architecture, name, version)])
        shutil.move(self.found(name, architecture), directory)


apt = Apt()


def download(source, name, version, directory):
    """Brings a package into a directory, as its registry gives it, or built."""
    kind, _, architecture = source.partition("-")
    match kind:
        case "debian":
            apt.download(name, architecture, version, directory)
        case "pypi":
            platforms = [f"--platform=manylinux{tag}_x86_64" for tag in ["_2_34", "_2_28", "_2_27", "_2_17", "2014", "1"]]
            client("pip", "download", "-q", "--no-deps", "--only-binary=:all:", "--python-version=3.13", *platforms,
                   "-d", directory, f"{name}=={version}")
        case "npm":
            client("npm", "pack", "--silent", f"{name}@{version}", cwd=directory)
        case "maven":
            group, artifact, *classifier = name.split(":")
            coordinates = ":".join([group, artifact, version, *(["jar", *classifier] if classifier else [])])
            client("mvn", "-q", "-B", f"-Dmaven.repo.local={cache()}/maven", "dependency:copy",
                   f"-Dartifact={coordinates}", f"-DoutputDirectory={directory}")
        case "crates":
            client("cargo", "install", "--quiet", "--locked", "--jobs=2", "--root", directory,
                   "--target-dir", f"{directory}/target", "--version", version, name,
                   env={**os.environ, "CARGO_PROFILE_RELEASE_LTO": "off"})
            shutil.rmtree(f"{directory}/target")
        case "go":
            client("go", "install", f"{name}@{version}",
                   env={**os.environ, "GOBIN": directory, "GOFLAGS": "-mod=mod", "CGO_ENABLED": "1"})
        case _:
            raise ValueError(f"no source is named {source}")


def unpack(directory):
    """Unpacks what a registry gave."""
    for path in list(pathlib.Path(directory).iterdir()):
        into = path.with_name(path.name + ".d")
        if path.suffix == ".deb":
            subprocess.run(["dpkg-deb", "-x", path, into], check=True)
        elif path.suffix in (".whl", ".jar", ".zip"):
            with zipfile.ZipFile(path) as archive:
                archive.extractall(into)
        elif path.name.endswith((".tgz", ".tar.gz")):
            with tarfile.open(path) as archive:
                archive.extractall(into, filter="data")
        else:
            continue
        path.unlink()


def is_program(path):
    """Whether a file is an executable or a shared object."""
    if path.is_symlink() or not path.is_file() or path.stat().st_size < SMALLEST:
        return False
    with path.open("rb") as file:
        header = file.read(18)
    if header[:4] != b"\x7fELF":
        return False
    order = "little" if header[5] == 1 else "big"
    return int.from_bytes(header[16:18], order) in (2, 3)


def programs(directory):
    """The programs and libraries below a directory, each file once."""
    seen = set()
    for path in sorted(pathlib.Path(directory).rglob("*")):
        if is_program(path) and (inode := path.stat().st_ino) not in seen:
            seen.add(inode)
            yield path


@contextlib.contextmanager
def package(words):
    """The programs of a line of a list, while the block runs."""
    if len(words) == 1:
        yield [pathlib.Path(words[0])]
        return
    source, name, version = words
    with tempfile.TemporaryDirectory(prefix=re.sub(r"\W+", "-", name), dir=cache()) as directory:
        download(source, name, version, directory)
        unpack(directory)
        yield list(programs(directory))

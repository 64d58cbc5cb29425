"""The questions: files of SQL, each of which begins with its question in words."""

from pathlib import Path


def directory():
    """Where the questions lie: in the installed package, or beside it in the repository."""
    here = Path(__file__).parent
    for place in (here / "queries", here.parent / "queries"):
        if place.is_dir():
            return place
    raise FileNotFoundError("the questions are not installed")


class Query:
    """A question: its name, its words and its SQL."""

    def __init__(self, path):
        self.name = path.stem
        self.sql = path.read_text()
        comment = []
        for line in self.sql.splitlines():
            if not line.startswith("--"):
                break
            comment.append(line[2:].strip())
        words = "\n".join(comment).split("\n\n")
        self.question = words[0].replace("\n", " ")
        self.explanation = " ".join(words[1:]).replace("\n", " ")


def queries(names=()):
    """The questions of these names, or all."""
    found = {path.stem: Query(path) for path in sorted(directory().glob("*.sql"))}
    unknown = [name for name in names if name not in found]
    if unknown:
        raise KeyError(f"no question {unknown[0]!r}; there are {', '.join(found)}")
    return [found[name] for name in names] if names else list(found.values())

#!/usr/bin/env python3
"""Adds what was measured on other machines to the record of the page: machines.py RECORD.jsonl FILE…

A file holds what `hugetext host --json` wrote and, behind it, what `hugetext bench --json` wrote there, if it was asked.
Of that, the ratios of starts and work are kept. A file that was sent in twice is kept once. One that is no such document
is named and left out.
"""

import json
import sys
from pathlib import Path


def documents(text):
    """The JSON documents of a text, one behind the other."""
    decoder, found = json.JSONDecoder(), []
    while text := text.lstrip():
        document, end = decoder.raw_decode(text)
        found.append(document)
        text = text[end:]
    return found


def gains(comparison):
    """What a comparison is about, and the ratio of the time of each of its sides."""
    [values] = [one["values"] for one in comparison["measures"] if one["name"] == "wall"]
    names = [side["name"] for side in comparison["sides"]]
    ratios = {name: value["ratio"] for name, value in zip(names, values) if "ratio" in value}
    return {"title": comparison["title"], "ratios": ratios}


def told_by(file):
    """The line of the record that a file gives."""
    host, *benches = documents(Path(file).read_text())
    host["verdict"], host["machine"]["release"], host["platform"]
    comparisons = [gains(one) for bench in benches for one in bench["benchmarks"]]
    return json.dumps({**host, "gains": comparisons} if comparisons else host, sort_keys=True)


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    record, files = Path(sys.argv[1]), sys.argv[2:]
    lines = record.read_text().splitlines() if record.exists() else []
    for file in files:
        try:
            line = told_by(file)
        except (OSError, ValueError, KeyError, TypeError) as error:
            print(f"{file}: not what `hugetext host --json` and `hugetext bench --json` write: {error!r}", file=sys.stderr)
            continue
        if line not in lines:
            lines.append(line)
    lines.sort(key=lambda line: (json.loads(line)["verdict"], line))
    new = record.with_suffix(".new")
    new.write_text("".join(f"{line}\n" for line in lines))
    new.rename(record)


if __name__ == "__main__":
    main()

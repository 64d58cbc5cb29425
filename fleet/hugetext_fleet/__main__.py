"""`hugetext-fleet DIR`: asks the questions of an inventory, on DuckDB, or on Spark with --master."""

import argparse
import sys
from datetime import date

from . import engines, show
from .queries import queries


def arguments():
    """What the user wants."""
    parser = argparse.ArgumentParser(prog="hugetext-fleet", description=__doc__)
    parser.add_argument("place", help="what `hugetext inventory -o` was given")
    parser.add_argument("question", nargs="*", help="names of questions; all if none is given")
    parser.add_argument("--master", help="ask Spark there, as local[*] or spark://HOST:PORT")
    parser.add_argument("--memory", help="how much DuckDB may use, as 4GB")
    parser.add_argument(
        "--from", dest="first", type=date.fromisoformat, metavar="DATE", help="no rows before, as 2026-11-01"
    )
    parser.add_argument(
        "--to", dest="last", type=date.fromisoformat, metavar="DATE", help="no rows after"
    )
    parser.add_argument("--format", choices=["table", "csv", "html"], default="table")
    return parser.parse_args()


def main():
    """Prints the answers; ends with 2 and one line if there is none."""
    wanted = arguments()
    try:
        asked = queries(wanted.question)
        period = engines.Period(wanted.first, wanted.last)
        if wanted.master:
            engine = engines.Spark(wanted.place, wanted.master, period)
        else:
            engine = engines.DuckDB(wanted.place, wanted.memory, period)
        answers = [(query, engine.run(query.sql)) for query in asked]
        engine.close()
    except Exception as error:  # Each engine has its own types; the user gets one line.
        line = str(error).strip().split("\n", maxsplit=1)[0].strip("'\"")
        print(f"hugetext-fleet: {wanted.place}: {line}", file=sys.stderr)
        return 2
    if wanted.format == "html":
        sys.stdout.write(show.page(answers))
    else:
        form = show.table if wanted.format == "table" else show.comma_separated
        sys.stdout.write("\n".join(form(query, answer) for query, answer in answers))
    return 0


if __name__ == "__main__":
    sys.exit(main())

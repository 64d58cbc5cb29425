"""Answers as a table, as CSV, and as one page of HTML."""

import csv
import html
import io

STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 75rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0 2rem; display: block; overflow-x: auto; }
th, td { padding: 0.2rem 0.8rem; text-align: left; border-bottom: 1px solid #8884; white-space: nowrap; }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
"""


def shown(value):
    """A value for people: numbers with spaces between thousands."""
    if value is None:
        return "–"
    if isinstance(value, int):
        return f"{value:,}".replace(",", "\u202f")
    if isinstance(value, float):
        return f"{value:.3g}"
    return value


def is_number(answer, column):
    values = [row[column] for row in answer.rows if row[column] is not None]
    return bool(values) and all(isinstance(value, (int, float)) for value in values)


def table(query, answer):
    """Columns for a terminal, or for a document: it is Markdown."""
    lines = [f"**{query.question}**", ""]
    if not answer.rows:
        return "\n".join([*lines, "Nothing.", ""])
    marks = ["---:" if is_number(answer, n) else "---" for n in range(len(answer.columns))]
    rows = [answer.columns, marks]
    rows += [[shown(value).replace("|", "\\|") for value in row] for row in answer.rows]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([*lines, ""])


def comma_separated(query, answer):
    """CSV, with the question's name as its first column."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["question", *answer.columns])
    writer.writerows([query.name, *row] for row in answer.rows)
    return text.getvalue()


def page(answers):
    """One page of HTML with every answer; it loads nothing from elsewhere."""
    parts = [
        "<!doctype html><html lang=en><meta charset=utf-8>",
        "<meta name=viewport content='width=device-width'>",
        f"<title>Text of the fleet</title><style>{STYLE}</style><h1>Text of the fleet</h1>",
    ]
    for query, answer in answers:
        parts.append(f"<h2 id={query.name}>{html.escape(query.question)}</h2>")
        parts.append(f"<p>{html.escape(query.explanation)}</p>" if query.explanation else "")
        if not answer.rows:
            parts.append("<p>Nothing.</p>")
            continue
        kinds = [
            " class=number" if is_number(answer, n) else "" for n in range(len(answer.columns))
        ]
        head = "".join(
            f"<th{kind}>{html.escape(name)}</th>" for kind, name in zip(kinds, answer.columns)
        )
        parts.append(f"<table><thead><tr>{head}</tr></thead><tbody>")
        for row in answer.rows:
            cells = "".join(
                f"<td{kind}>{html.escape(str(shown(value)))}</td>"
                for kind, value in zip(kinds, row)
            )
            parts.append(f"<tr>{cells}</tr>")
        parts.append("</tbody></table>")
    return "\n".join(part for part in parts if part) + "\n"

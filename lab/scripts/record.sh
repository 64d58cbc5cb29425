# shellcheck shell=sh
# Lines of a record that lab/run hugetext-report reads: facts, and rows of the tables of a page. To be sourced; needs jq.

fact() { # NAME VALUE
    jq -cn --arg fact "$1" --arg value "$2" '{fact: $fact, value: $value}'
}

row() { # TABLE CELL…
    record_table=$1
    shift
    jq -cn --arg table "$record_table" '{table: $table, row: $ARGS.positional}' --args -- "$@"
}

rows() { # TABLE: rows of Markdown on standard input
    jq -R -c --arg table "$1" '{table: $table, row: (ltrimstr("| ") | rtrimstr(" |") | split(" | "))}'
}

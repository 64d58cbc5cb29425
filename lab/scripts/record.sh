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

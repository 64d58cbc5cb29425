#!/bin/sh
# One backend of PostgreSQL answers point selects and a join.
# SELECTS (30000) says how many: of a long run, a start takes little.
# Prepares a database in the directory $1. Prints a title, the program, and the words of the command.
# shellcheck source=crates/bench/loads/work/cluster
. "$1/cluster"
selects=${SELECTS:-30000}
{
    echo "create table account (id int primary key, balance int, filler text);"
    echo "insert into account select i, i * 7 % 1000, repeat('x', 80) from generate_series(1, 20000) i;"
} | $as "$bin/postgres" --single -D "$1/data" postgres > "$1/log" 2>&1
{
    for i in $(seq "$selects"); do
        echo "select balance from account where id = $((i * 2 % 20000)) and balance < 2000;"
    done
    echo "select a.balance, count(*) from account a join account b on a.id = b.balance group by 1 order by 2;"
} > "$1/questions.sql"
echo "postgres, one backend: $selects point selects and a join"
echo "$bin/postgres"
printf '%s\n' sh -c "exec $as '$bin/postgres' --single -D '$1/data' postgres < '$1/questions.sql'"

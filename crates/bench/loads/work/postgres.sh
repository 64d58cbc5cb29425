#!/bin/sh
# One backend of PostgreSQL answers point selects and a join.
# Prepares a database in the directory $1. Prints a title, the program, and the words of the command.
set -eu
bin=$(find /usr/lib/postgresql -maxdepth 2 -name bin 2> /dev/null | sort -V | tail -n 1)
[ -n "$bin" ] || { echo "postgresql" >&2; exit 3; }
[ "$(id -u)" = 0 ] || { echo "postgresql, and run as root" >&2; exit 3; }
chmod 755 "$1"
mkdir "$1/data"
chown postgres "$1/data"
as() { setpriv --reuid postgres --regid postgres --clear-groups "$@"; }
as "$bin/initdb" -D "$1/data" --no-sync --auth=peer > /dev/null
{
    echo "create table account (id int primary key, balance int, filler text);"
    echo "insert into account select i, i * 7 % 1000, repeat('x', 80) from generate_series(1, 20000) i;"
} | as "$bin/postgres" --single -D "$1/data" postgres > "$1/log" 2>&1
{
    for i in $(seq 30000); do
        echo "select balance from account where id = $((i * 2 % 20000)) and balance < 2000;"
    done
    echo "select a.balance, count(*) from account a join account b on a.id = b.balance group by 1 order by 2;"
} > "$1/questions.sql"
echo "postgres, one backend: 30,000 point selects and a join"
echo "$bin/postgres"
printf '%s\n' sh -c "exec setpriv --reuid postgres --regid postgres --clear-groups '$bin/postgres' --single -D '$1/data' \
postgres < '$1/questions.sql'"

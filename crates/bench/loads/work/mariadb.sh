#!/bin/sh
# MariaDB answers point selects in its bootstrap mode.
# Prepares a database in the directory $1. Prints a title, the program, and the words of the command.
set -eu
server=$(command -v mariadbd || ls /usr/sbin/mariadbd 2> /dev/null) || { echo "mariadb-server-core" >&2; exit 3; }
mkdir "$1/data" "$1/data/bench"
{
    echo "use bench;"
    echo "create table account (id int primary key, balance int, filler char(80)) engine=innodb;"
    echo "insert into account select seq, seq * 7 % 1000, 'x' from seq_1_to_20000;"
} > "$1/create.sql"
for i in $(seq 30000); do
    [ "$i" -gt 1 ] || echo "use bench;"
    echo "do (select balance from account where id = $((i * 2 % 20000)) and balance < 2000);"
done > "$1/questions.sql"
run="'$server' --no-defaults --user=$(id -un) --bootstrap --datadir='$1/data' --skip-log-bin --innodb-flush-method=nosync"
sh -c "$run < '$1/create.sql'" > "$1/log" 2>&1 || { cat "$1/log" >&2; exit 1; }
echo "mariadbd in bootstrap mode: 30,000 point selects"
echo "$server"
printf '%s\n' sh -c "exec $run < '$1/questions.sql'"

#!/bin/sh
# A server of MariaDB answers sysbench's point selects. The client's processor time does not count, because the server
# does not wait for it. Without --large-pages this server switches huge pages off for itself (PR_SET_THP_DISABLE).
# Prepares a database in the directory $1. Prints a title, the program, and the words of the command.
set -eu
missing() { echo "mariadb-server-core sysbench" >&2; exit 3; }
server=$(command -v mariadbd || ls /usr/sbin/mariadbd 2> /dev/null) || missing
command -v sysbench > /dev/null || missing
mkdir -p "$1/data/mysql" "$1/data/bench"
user=$(id -un)
serve="'$server' --no-defaults --user=$user --datadir='$1/data' --socket='$1/socket' --pid-file='$1/pid' \
--skip-networking --skip-grant-tables --skip-log-bin --skip-slave-start --large-pages --innodb-flush-method=nosync"
cat > "$1/client" << CLIENT
#!/bin/sh
# client prepare|run: asks when the server answers, and stops it then.
until [ -S '$1/socket' ] && [ -s '$1/pid' ]; do sleep 0.01; done
sysbench oltp_point_select --mysql-socket='$1/socket' --mysql-user=root --mysql-db=bench --tables=1 \
    --table-size=20000 --threads=8 --events=40000 --time=0 "\$1" > '$1/asked' 2>&1
asked=\$?
kill "\$(cat '$1/pid')"
exit \$asked
CLIENT
chmod +x "$1/client"
"$1/client" prepare &
sh -c "exec $serve" > "$1/log" 2>&1
wait $! || { tail -n 1 "$1/asked" >&2; exit 1; }
echo "mariadbd: 40,000 point selects of sysbench on 8 connections, with --large-pages"
echo "$server"
printf '%s\n' sh -c "'$1/client' run & exec $serve > '$1/log' 2>&1"

#!/bin/sh
# redis answers sets, gets and increments over a socket. The client's processor time does not count, because the
# server does not wait for it.
# Prepares a script in the directory $1. Prints a title, the program, and the words of the command.
set -eu
missing() { echo "redis-server redis-tools" >&2; exit 3; }
server=$(command -v redis-server) || missing
command -v redis-benchmark > /dev/null || missing
cat > "$1/ask" << ASK
#!/bin/sh
until redis-cli -s '$1/socket' ping > /dev/null 2>&1; do sleep 0.01; done
redis-benchmark -s '$1/socket' -n 40000 -c 20 -P 4 -t set,get,incr,lpush,hset -q > /dev/null
exec redis-cli -s '$1/socket' shutdown nosave
ASK
chmod +x "$1/ask"
echo "redis-server: 200,000 requests of 20 connections, with disable-thp no"
readlink -f "$server"
printf '%s\n' sh -c "rm -f '$1/socket'; '$1/ask' & exec '$server' --port 0 --unixsocket '$1/socket' --dir '$1' --save '' \
--disable-thp no > '$1/log'"

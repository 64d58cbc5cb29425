#!/bin/sh
# One process of nginx answers requests for a file and for what its configuration says. The client's processor time does
# not count, because the server does not wait for it.
# Prepares a configuration in the directory $1. Prints a title, the program, and the words of the command.
set -eu
missing() { echo "nginx apache2-utils" >&2; exit 3; }
server=$(command -v nginx || ls /usr/sbin/nginx 2> /dev/null) || missing
command -v ab > /dev/null || missing
at=127.83.84.85:8391
cat > "$1/nginx.conf" << CONF
daemon off;
master_process off;
pid $1/pid;
error_log $1/log;
events {}
http {
    access_log off;
    client_body_temp_path $1/body;
    proxy_temp_path $1/proxy;
    fastcgi_temp_path $1/fastcgi;
    uwsgi_temp_path $1/uwsgi;
    scgi_temp_path $1/scgi;
    server {
        listen $at;
        root $1;
        location /said { return 200 "\$remote_addr \$request_uri"; }
    }
}
CONF
echo "a file" > "$1/file"
cat > "$1/ask" << ASK
#!/bin/sh
until [ -s '$1/pid' ] && ab -q -n 1 'http://$at/file' > /dev/null 2>&1; do sleep 0.01; done
ab -q -k -n 20000 -c 20 'http://$at/file' > /dev/null 2>&1
ab -q -k -n 20000 -c 20 'http://$at/said?a=b' > /dev/null 2>&1
ab -q -n 5000 -c 20 'http://$at/file' > /dev/null 2>&1
exec kill -QUIT "\$(cat '$1/pid')"
ASK
chmod +x "$1/ask"
echo "nginx, one process: 45,000 requests of 20 connections"
readlink -f "$server"
printf '%s\n' sh -c "'$1/ask' & exec '$server' -c '$1/nginx.conf' -e '$1/log'"

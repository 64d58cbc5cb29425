#!/bin/sh
# php matches, sorts and encodes.
# Prepares its script in the directory $1. Prints a title, the program, and the words of the command.
set -eu
php=$(command -v php) || { echo "php-cli" >&2; exit 3; }
cat > "$1/words.php" << 'END'
<?php
$seen = [];
for ($i = 0; $i < 150000; $i++) {
    $line = sprintf("%s-%d %s", md5((string) $i), $i % 97, strrev((string) $i));
    if (preg_match('/([0-9a-f]{4})-(\d+) (\d*[37])/', $line, $found)) {
        $seen[$found[1]][] = ["n" => (int) $found[2], "t" => ucwords($line)];
    }
}
ksort($seen);
echo strlen(serialize(json_decode(json_encode($seen), true)));
END
echo "php matches, sorts and encodes 150,000 lines"
readlink -f "$php"
printf '%s\n' "$php" -n -d memory_limit=2G "$1/words.php"

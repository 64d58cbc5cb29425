#!/bin/sh
# python3 parses modules of its own library.
# Prints a title, the program, and the words of the command.
set -eu
python=$(command -v /usr/bin/python3) || { echo "python3" >&2; exit 3; }
cat > "$1/parse.py" << 'END'
import ast, glob, sysconfig
for name in sorted(glob.glob(sysconfig.get_path("stdlib") + "/*.py"))[:30]:
    with open(name, encoding="utf-8") as module:
        ast.unparse(ast.parse(module.read()))
END
echo "python3 parses 30 modules of its library and prints them"
readlink -f "$python"
printf '%s\n' "$python" -I -S "$1/parse.py"

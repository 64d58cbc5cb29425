#!/bin/sh
# A Java virtual machine that has been up for a while: the same source is compiled again and again in one process.
# Prepares its input in the directory $1. Prints a title, the program, and the words of the command.
set -eu
javac=$(command -v javac) || { echo "default-jdk-headless" >&2; exit 3; }
home=$(dirname "$(dirname "$(readlink -f "$javac")")")
cat > "$1/Steady.java" << 'JAVA'
import java.util.List;
import javax.tools.JavaCompiler;
import javax.tools.StandardJavaFileManager;
import javax.tools.ToolProvider;

public class Steady {
    public static void main(String[] arguments) throws Exception {
        JavaCompiler compiler = ToolProvider.getSystemJavaCompiler();
        List<String> options = List.of("-d", arguments[0] + "/out");
        try (StandardJavaFileManager files = compiler.getStandardFileManager(null, null, null)) {
            for (int round = 0; round < 60; round++) {
                var sources = files.getJavaFileObjects(arguments[0] + "/Steady.java");
                if (!compiler.getTask(null, files, null, options, null, sources).call()) System.exit(1);
            }
        }
    }
}
JAVA
mkdir "$1/out"
"$javac" -d "$1" "$1/Steady.java"
echo "java compiles a class 60 times in one process; the text of libjvm.so alone is changed"
echo "$home/lib/server/libjvm.so"
printf '%s\n' "$home/bin/java" -cp "$1" Steady "$1"

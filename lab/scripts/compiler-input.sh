#!/bin/sh
# Prints C source for measuring a compiler: headers of this machine, and N times three functions (a
# switch in a loop, recursion over a tree in floating point, an insertion sort), each with its own
# constants. The same machine and N give the same text.
set -eu

n=${1:?usage: $0 N}

for header in stdio stdlib string math errno ctype signal setjmp locale inttypes pthread; do
    echo "#include <$header.h>"
done
cat <<'C'
struct node { struct node *left, *right; long key; double weight; char name[24]; };
static int compare(const void *a, const void *b)
{
    return strcmp(((const struct node *)a)->name, ((const struct node *)b)->name);
}
C
i=0
while [ "$i" -lt "$n" ]; do
    cat <<C
static long fold_$i(const long *v, int n)
{
    long sum = $i;
    for (int k = 0; k < n; k++)
        switch ((v[k] + $i) % 7) {
        case 0: sum += v[k] << $((i % 5)); break;
        case 1: sum ^= v[k] * $((i * 31 + 7)); break;
        case 2: sum -= v[k] / $((i + 1)); break;
        case 3: if (v[k] > $((i * 3))) sum += k; else sum--; break;
        default: sum = sum * 33 + (unsigned char)v[k];
        }
    return sum;
}
double blend_$i(struct node *t, double x, int depth)
{
    char text[64];
    if (!t || depth > $((i % 11 + 3)))
        return x;
    snprintf(text, sizeof text, "%ld:%g:%s", t->key, t->weight, t->name);
    double y = sqrt(fabs(x * t->weight + $i.5)) + sin(x) * cos(t->weight);
    if (strlen(text) % 2)
        y += blend_$i(t->left, y, depth + 1);
    else
        y -= blend_$i(t->right, -y, depth + 1);
    return y + (double)fold_$i(&t->key, 1);
}
int sort_$i(struct node *v, size_t n)
{
    qsort(v, n, sizeof *v, compare);
    for (size_t k = 1; k < n; k++)
        for (size_t m = k; m > 0 && v[m].key * $i < v[m - 1].key; m--) {
            struct node swap = v[m];
            v[m] = v[m - 1];
            v[m - 1] = swap;
        }
    return n > $i ? (int)v[$((i % 16))].key : errno;
}
C
    i=$((i + 1))
done

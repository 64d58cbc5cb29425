// A leaf of text raises the alignment. The load bias must then be a multiple of the leaf, so the
// first segment goes to an address that is congruent to its own.
@@
@@
#include <asm/page.h>
+#include "elf_text_alignment.h"

@@
symbol alignment, load_bias, bprm;
@@
 static int load_elf_binary(...)
 {
 <...
 	unsigned long alignment;
+	unsigned long leaf;
+	unsigned long skew = 0;
 ...>
 }

@@
expression phdrs, nr;
symbol bprm;
@@
 static int load_elf_binary(...)
 {
 <...
 	alignment = maximum_alignment(phdrs, nr);
+	leaf = elf_text_alignment(bprm, phdrs, nr);
+	if (leaf > alignment) {
+		alignment = leaf;
+		skew = vaddr & (leaf - 1);
+	}
 ...>
 }

@@
@@
 static int load_elf_binary(...)
 {
 <...
-	load_bias &= ~(alignment - 1);
+	load_bias = elf_place(load_bias, alignment, skew);
 ...>
 }

/^config COMPAT_BINFMT_ELF$/i\
config ELF_TEXT_LEAF_KUNIT_TEST\
	tristate "KUnit tests for the alignment that text is loaded at" if !KUNIT_ALL_TESTS\
	depends on KUNIT && BINFMT_ELF && 64BIT\
	default KUNIT_ALL_TESTS\
	help\
	  Enable this option to check for which program headers the ELF loader\
	  aligns an image so that one page table entry can map much of its\
	  text, and for which it leaves the alignment at p_align: writable,\
	  short and incongruent segments gain nothing.\
\
	  If unsure, say N.\


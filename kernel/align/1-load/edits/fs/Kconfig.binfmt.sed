/^config COMPAT_BINFMT_ELF$/i\
config ELF_TEXT_LEAF_KUNIT_TEST\
	tristate "KUnit tests for the load alignment of text" if !KUNIT_ALL_TESTS\
	depends on KUNIT && BINFMT_ELF && 64BIT\
	default KUNIT_ALL_TESTS\
	help\
	  Enable this option to check which program headers make the ELF loader\
	  align an image so that one page table entry can map much of its\
	  text. Writable, short and incongruent segments gain nothing: the\
	  alignment stays at p_align for them.\
\
	  If unsure, say N.\


/^obj-\$\(CONFIG_BINFMT_ELF\)/a\
obj-$(CONFIG_ELF_TEXT_LEAF_KUNIT_TEST) += tests/elf_text_leaf_kunit.o

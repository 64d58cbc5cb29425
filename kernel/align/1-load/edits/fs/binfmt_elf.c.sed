# spatch would not keep the style of new functions.
/^static unsigned long maximum_alignment\(/,/^}$/{
	/^}$/a\
\
/*\
 * Whether a segment of text that is not writable holds a whole range of @size that one\
 * entry can map, if the load bias is a multiple of @size.\
 */\
static bool elf_holds_huge(const struct elf_phdr *cmds, int nr, unsigned long size)\
{\
	int i;\
\
	for (i = 0; i < nr; i++) {\
		const unsigned long start = round_up(ELF_PAGESTART(cmds[i].p_vaddr), size);\
		const unsigned long end = cmds[i].p_vaddr + cmds[i].p_filesz;\
\
		if (cmds[i].p_type == PT_LOAD \&\&\
		    (cmds[i].p_flags \& (PF_X | PF_W)) == PF_X \&\&\
		    IS_ALIGNED(cmds[i].p_vaddr - cmds[i].p_offset, size) \&\&\
		    start < end \&\& end - start >= size)\
			return true;\
	}\
	return false;\
}\
\
/*\
 * The alignment of the load bias with which large folios of the page cache can be\
 * mapped at once: PMD_SIZE, or 2M where that is smaller. A larger one than 32M takes\
 * too much of the address space. 0 if the image has no use for it, or if the program\
 * gets more rights than its caller: then each random bit counts.\
 */\
static unsigned long elf_huge_alignment(const struct linux_binprm *bprm,\
					const struct elf_phdr *cmds, int nr)\
{\
#ifdef CONFIG_TRANSPARENT_HUGEPAGE\
	const unsigned long pmd = PMD_SIZE;\
\
	/* Address spaces of 32 bits have no room for it. */\
	if (sizeof(cmds->p_vaddr) < 8 || bprm->secureexec ||\
	    !hugepage_global_enabled() || thp_disabled_by_hw() ||\
	    mm_flags_test(MMF_DISABLE_THP_COMPLETELY, current->mm) ||\
	    mm_flags_test(MMF_DISABLE_THP_EXCEPT_ADVISED, current->mm))\
		return 0;\
	if (pmd <= SZ_32M \&\& elf_holds_huge(cmds, nr, pmd))\
		return pmd;\
	if (pmd > SZ_2M \&\& elf_holds_huge(cmds, nr, SZ_2M))\
		return SZ_2M;\
#endif\
	return 0;\
}
}
/^static int load_elf_binary\(/,/^}$/{
	s/^		unsigned long alignment;$/		unsigned long alignment, huge;/
	s/^			alignment = maximum_alignment\(elf_phdata, elf_ex->e_phnum\);$/&\
			huge = elf_huge_alignment(bprm, elf_phdata, elf_ex->e_phnum);\
			alignment = max(alignment, huge);/
	s/^			load_bias = ELF_PAGESTART\(load_bias - vaddr\);$/&\
			if (huge)\
				load_bias = round_down(load_bias, huge);/
}

# Adds a function. spatch would not keep the style of a new function.
0,/^ \* Map "eppnt->p_filesz" bytes from "filep" offset/{
	/^ \* Map "eppnt->p_filesz" bytes from/i\
 * Find an address with room for an image of @size bytes: @addr or, unless @type\
 * forbids it, another. Nothing is mapped there. Linking a mapping to its file\
 * takes a lock that every start of the same program takes. The room stays free,\
 * because nobody else maps anything into an mm that is being executed.\
 */\
static unsigned long elf_find_room(struct file *filep, unsigned long addr,\
				   unsigned long size, unsigned long off,\
				   int prot, int type)\
{\
	struct mm_struct *mm = current->mm;\
	vma_flags_t vma_flags = EMPTY_VMA_FLAGS;\
	unsigned long flags = type;\
\
	if (!size)\
		return -EINVAL;\
	/* Architectures know MAP_FIXED only. */\
	if (type \& MAP_FIXED_NOREPLACE)\
		flags |= MAP_FIXED;\
	/* As mmap() does: some architectures take a hint as it is. */\
	else if (addr \&\& addr < mmap_min_addr)\
		addr = PAGE_ALIGN(mmap_min_addr);\
	/* Text may be placed in a way of its own; mmap() knows it so. */\
	if ((prot \& PROT_EXEC) ||\
	    ((prot \& PROT_READ) \&\& (current->personality \& READ_IMPLIES_EXEC)))\
		vma_flags_set(\&vma_flags, VMA_EXEC_BIT);\
	if (mmap_write_lock_killable(mm))\
		return -EINTR;\
	addr = __get_unmapped_area(filep, addr, size, off >> PAGE_SHIFT, flags,\
				   vma_flags);\
	if (!IS_ERR_VALUE(addr) \&\& (type \& MAP_FIXED_NOREPLACE) \&\&\
	    find_vma_intersection(mm, addr, addr + size))\
		addr = -EEXIST;\
	mmap_write_unlock(mm);\
	return addr;\
}\
\
/*
}
/^	\* So we first map the 'big' image - and unmap the remainder at$/c\
	* So we first find room for the 'big' image.
/^	\* the end\. \(which unmap is needed for ELF images with holes\.\)$/d
/^	if \(total_size\) \{$/,/^		map_addr = vm_mmap\(filep, addr, size, prot, type, off\);$/c\
	map_addr = addr;\
	if (total_size \&\& !(type \& MAP_FIXED)) {\
		map_addr = elf_find_room(filep, addr, ELF_PAGEALIGN(total_size),\
					 off, prot, type);\
		type |= MAP_FIXED_NOREPLACE;\
	}\
	if (!IS_ERR_VALUE(map_addr))\
		map_addr = vm_mmap(filep, map_addr, size, prot, type, off);
/^		 \* we know we've already safely mapped the entire region with$/s/mapped the entire region/found room for all of it/
/^			 \* \(total_size\), used for the initial mapping,$/,/^			 \* once the initial mapping is performed\.$/c\
			 * (total_size), to find room for all of it before\
			 * the first segment is mapped.
s/^			 \* cause the holes between LOADs to be mapped,$/			 * look for room for the holes between LOADs, too,/
s/^			 \* running the risk of having the mapping fail,$/			 * running the risk of finding none,/
/^				if \(alignment > ELF_MIN_ALIGN\) \{$/,/^					vm_munmap\(load_bias, total_size\);$/{
	/^					load_bias = elf_load\(bprm->file, 0, elf_ppnt,$/{
		N
		c\
					load_bias = elf_find_room(bprm->file, 0,\
								  ELF_PAGEALIGN(total_size),\
								  elf_ppnt->p_offset -\
								  ELF_PAGEOFFSET(vaddr),\
								  elf_prot, elf_flags);
	}
	/^					vm_munmap\(/d
}

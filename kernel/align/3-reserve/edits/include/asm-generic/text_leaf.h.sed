/^#endif \/\* _ASM_GENERIC_TEXT_LEAF_H \*\/$/i\
/*\
 * Bytes of the largest page for which linkers lay out programs: their\
 * max-page-size, to which they align PT_LOAD. Where an architecture does not say\
 * so, loaders are not taken to reserve room.\
 */\
#ifndef TEXT_PAGE_MAX\
#define TEXT_PAGE_MAX	PAGE_SIZE\
#endif\


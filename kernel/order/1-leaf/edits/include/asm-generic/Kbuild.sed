/^mandatory-y \+= switch_to\.h$/a\
mandatory-y += text_leaf.h

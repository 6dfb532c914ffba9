/* What the tables of the policy's language are written with; for sections.c
 * and sections_upstream.c. */

#ifndef SLUICE_POLICY_SECTION_TABLES_H
#define SLUICE_POLICY_SECTION_TABLES_H

#include "base/compiler.h"
#include "policy/section.h"

#define MS(n) (UINT64_C(1000) * (n))
#define KIB(n) (UINT64_C(1024) * (n))
#define HOUR_MS UINT64_C(3600000)
#define DAY_MS (24 * HOUR_MS)

#define SECTION_OF(table)                                                                          \
    {                                                                                              \
        .fields = (table), .n_fields = ARRAY_LEN(table)                                            \
    }
#define SECTION_TYPE(section_, struct_)                                                            \
    {                                                                                              \
        .kind = VALUE_SECTION, .noun = "a mapping", .bytes = sizeof(struct_),                      \
        .section = &(section_)                                                                     \
    }
#define WORD_TYPE(words_, noun_)                                                                   \
    {                                                                                              \
        .kind = VALUE_WORD, .noun = (noun_), .bytes = sizeof(int), .words = (words_)               \
    }

/* A key of POLICY's language that this program does not have yet. */
#define NOT_YET(key_, doc_)                                                                        \
    {                                                                                              \
        .key = (key_), .standing = KEY_NOT_YET, .doc = (doc_)                                      \
    }

#endif /* SLUICE_POLICY_SECTION_TABLES_H */

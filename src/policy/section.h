/* What a mapping of the policy may hold, as a table: the loader reads by it, and whatever else must
 * know the language (documentation checks, schemas) is derived from it.
 *
 * A section is a mapping with known keys; its table says where each value goes in a struct that
 * starts with a struct section_place. */

#ifndef SLUICE_POLICY_SECTION_H
#define SLUICE_POLICY_SECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/compiler.h"
#include "base/diag.h"
#include "base/span.h"
#include "base/text.h"
#include "policy/node.h"

/* First member of a section's struct, and of the entries of a map. */
struct section_place {
    const struct node *node;      /* the mapping; NULL: it is not in the file, all are defaults */
    const struct node *name_node; /* in a map: the key */
    struct span name;             /* in a map: its text */
};

/* A list or map as it was read. */
struct section_items {
    const struct node *node; /* NULL: not in the file */
    void *items;             /* as large as their type says, in the loader's arena */
    size_t n_items;
};

enum value_kind {
    VALUE_SCALAR,  /* parse() */
    VALUE_WORD,    /* one of words: an int */
    VALUE_SECTION, /* section */
};

/* One word of an enumeration. */
struct value_word {
    const char *text;
    int value;
    bool not_yet; /* in the language, not in this program */
};

/* What a value without quotes is to YAML. */
enum value_form {
    FORM_TEXT,   /* a text of the pattern; without one any single value */
    FORM_NUMBER, /* a whole number, min to max; or a text of the pattern */
    FORM_SWITCH, /* true or false */
};

struct section;

struct value_type {
    enum value_kind kind;
    const char *noun; /* fit to follow "must be ", for people */
    size_t bytes;     /* of what it is read into */
    /* Read node->text into @out; false: @problem is fit to follow `KEY "VALUE": `. */
    bool (*parse)(const struct value_type *type, const struct node *node, struct arena *arena,
                  void *out, struct text *problem);
    uint64_t min; /* of numbers, durations, sizes */
    uint64_t max;
    const struct value_word *words; /* ends with a NULL text; of a scalar: some of what may stand */
    enum value_form form;           /* for schemas, as is the pattern */
    const char *pattern;            /* of texts, a regular expression of ECMA-262; NULL: none */
    bool is_secret;                 /* messages do not quote it */
    const struct section *section;
};

enum section_shape {
    SHAPE_ONE,
    /* a list; of scalars, or of sections that one may stand for, also one alone; into a struct
     * section_items */
    SHAPE_LIST,
    SHAPE_MAP, /* name: value; into a struct section_items, each item starts with a section_place */
};

enum section_standing {
    KEY_OPTIONAL,
    KEY_REQUIRED,
    KEY_NOT_YET, /* in the language, not in this program */
};

struct section_field {
    const char *key;
    enum section_shape shape;
    const struct value_type *type; /* of the value or of each item; NULL if not yet */
    size_t offset;
    const char *fallback; /* default as text; NULL: the member stays zero */
    enum section_standing standing;
    const char *doc; /* one line for people, unit included */
};

struct section {
    const struct section_field *fields;
    size_t n_fields;
    const char *shorthand; /* a single value instead of the mapping is this key's; may be NULL */
    const struct section_field *others; /* of SHAPE_MAP: where keys go that are none of fields but
                                           that is_other() takes; NULL: there are none */
    bool (*is_other)(struct span key);
    const char *others_pattern; /* those keys, as a regular expression of ECMA-262 */
};

/* What reading needs and leaves. */
struct section_reader {
    struct arena *arena; /* what was read lives here and in the nodes */
    struct diags *diags;
    bool no_memory;
};

/* Read @root, a mapping, by @section into @spec, which is zero. All that is wrong goes to the
 * reader's diags; members that could not be read have their default, or stay zero. */
void section_read(struct section_reader *reader, const struct section *section,
                  const struct node *root, void *spec);

#endif /* SLUICE_POLICY_SECTION_H */

/* Tables of the keys that a mapping of the policy may have. The loader uses them, and documentation
 * checks and schemas are derived from them.
 *
 * A section is a mapping with known keys; its table says where each value goes in a struct that
 * starts with a struct section_position. */

#ifndef SLUICE_POLICY_LOAD_SECTION_H
#define SLUICE_POLICY_LOAD_SECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/compiler.h"
#include "base/diag.h"
#include "base/memory.h"
#include "base/span.h"
#include "base/text.h"
#include "policy/load/node.h"

/* First member of a section's struct, and of the entries of a map. */
struct section_position {
    const struct node *node;      /* the value; NULL: not in the file, all defaults */
    const struct node *name_node; /* in a map: the key */
    struct span name;             /* in a map: its text */
};

/* A list or map that was read. */
struct section_items {
    const struct node *node; /* NULL: not in the file */
    void *items;             /* of the size of their type, in the loader's arena */
    size_t n_items;
};

/* A named list. */
struct section_list {
    struct section_position position;
    struct section_items values;
};

/* A text that was read. Values that later messages may mention keep their node. node is NULL: not
 * read. */
struct spec_text {
    const struct node *node;
    struct span text;
};

enum value_kind {
    VALUE_SCALAR,  /* parse() */
    VALUE_STRING,  /* a struct spec_text that check() accepts */
    VALUE_WORD,    /* one of words: an int */
    VALUE_SECTION, /* section */
};

/* The type of an unquoted value in YAML. */
enum value_form {
    FORM_TEXT,   /* a text that matches pattern; without one any single value */
    FORM_NUMBER, /* a whole number, min to max; or a text that matches pattern */
    FORM_SWITCH, /* true or false */
};

struct section;
struct value_type;

/* A scalar to parse. */
struct value_input {
    const struct value_type *type;
    const struct node *node;
    struct span text; /* of the node */
    struct arena *arena;
    struct text *problem; /* describes the error, for use after `KEY "VALUE": ` */
};

struct value_type {
    enum value_kind kind;
    const char *noun; /* for messages, after "must be " */
    size_t bytes;     /* size of the parsed value */
    size_t offset;    /* in it, of what parse() writes */
    bool has_node;    /* it begins with a pointer to its node, which the reader sets */
    /* Read the text into @out. False: the problem is written. */
    bool (*parse)(const struct value_input *input, void *out);
    bool (*check)(struct span text, struct text *problem); /* likewise; NULL: all are valid */
    uint64_t min; /* of numbers, durations, sizes; of words: the value of the first */
    uint64_t max;
    /* in the order of their values, then NULL; of a scalar: some valid values */
    const char *const *words;
    const char *zero_word; /* of a number or a size: stands for 0, whatever min is; or NULL */
    enum value_form form;  /* for schemas, as is the pattern */
    const char *pattern;   /* of texts, a regular expression of ECMA-262; NULL: none */
    bool is_secret;        /* neither messages nor descriptions tell it */
    bool is_matched;       /* likewise, except true and false in descriptions */
    bool has_query;        /* likewise with a "?"; descriptions tell what is before it */
    const struct section *section;
};

enum section_shape {
    SHAPE_ONE,
    /* a list of scalars or of sections; a single item may replace the list; read into a struct
     * section_items */
    SHAPE_LIST,
    /* name: value; read into a struct section_items, whose items start with a section_position */
    SHAPE_MAP,
    /* name: value or list of values; read into a struct section_items of struct section_list */
    SHAPE_MAP_OF_LISTS,
};

enum key_presence {
    KEY_OPTIONAL,
    KEY_CONDITIONAL, /* optional; with some values of other keys an error */
    KEY_WITH_REDIS,  /* optional; an error without `redis` beside it */
    KEY_REQUIRED,
};

struct section_field {
    const char *key;
    enum section_shape shape;
    const struct value_type *type; /* of the value or of each item */
    size_t offset;
    const char *fallback; /* default as text; NULL: the member stays zero */
    enum key_presence presence;
    const char *doc; /* description in one line, with the unit */
};

/* A key that other programs have, and what is written here instead: `name: VALUEsuffix`. */
struct section_synonym {
    const char *key;
    const char *name;
    const char *suffix;
};

struct section {
    const struct section_field *fields;
    size_t n_fields;
    const struct section_synonym *synonyms;
    size_t n_synonyms;
    const char *manual;    /* that lists the keys, in place of messages; NULL: messages list them */
    const char *shorthand; /* key that a single value instead of the mapping sets; or NULL */
    /* of SHAPE_MAP: receives keys that are not in fields and that is_other() accepts; NULL: none */
    const struct section_field *others;
    bool (*is_other)(struct span key);
    const char *others_pattern; /* pattern of those keys, a regular expression of ECMA-262 */
};

/* Context and result of reading. */
struct section_reader {
    struct arena *arena; /* values live here and in the nodes */
    struct diags *diags;
    bool no_memory;
};

/* Read @root, a mapping of the section @type, into @spec, which is zero. All errors go to the
 * reader's diags; members that cannot be read have their default or stay zero. */
void section_read(struct section_reader *reader, const struct value_type *type,
                  const struct node *root, void *spec);

/* Write that @word must be @noun, and the nearest of @words, which end with NULL. Returns false. */
bool section_refuse_word(const char *noun, const char *const *words, struct span word,
                         struct text *problem);

#endif /* SLUICE_POLICY_LOAD_SECTION_H */

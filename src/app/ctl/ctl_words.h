/* The commands of `sluice ctl`: the request of each, and the printing of its answer. */

#ifndef SLUICE_APP_CTL_CTL_WORDS_H
#define SLUICE_APP_CTL_CTL_WORDS_H

#include <stddef.h>

#include "app/ctl/ctl_print.h"

struct ctl_word {
    const char *name;
    const char *arguments; /* "LIMIT KEY [REASON]"; those in brackets are optional */
    const char *method;
    /* "/v1/limits/%/keys/%": each % is the next argument, encoded; an omitted one is empty. */
    const char *target;
    /* Make the body from the arguments that the target does not use; NULL: no body is sent. If it
     * fails, *why is the reason for people, static. */
    json_t *(*make_body)(int n_arguments, char **arguments, const char **why);
    /* Print @answer, which is not an error, for people. Returns the exit status. NULL: nothing but
     * the table. */
    int (*print)(const json_t *answer, FILE *out);
    const struct ctl_table *table; /* printed after that; NULL with no @print: all is a tree */
    const char *help;
};

extern const struct ctl_word CTL_WORDS[];
extern const size_t N_CTL_WORDS;

#endif /* SLUICE_APP_CTL_CTL_WORDS_H */

/* The words of `sluice ctl`: what each asks for, and how its answer is shown. To add one: a row in
 * ctl_words.c, and a function that shows it in ctl_show.c or a file like that. */

#ifndef SLUICE_APP_CTL_WORDS_H
#define SLUICE_APP_CTL_WORDS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct ctl_word {
    const char *name;
    const char *arguments; /* "LIMIT KEY [REASON]"; those in brackets may be left out */
    const char *method;
    const char
        *target; /* "/v1/limits/%/keys/%": each % is the next argument, encoded; left out: empty */
    /* The body, of the arguments that the target has not used; NULL: none is sent. *why says to
     * people why there is none, static. */
    json_t *(*make_body)(int n_arguments, char **arguments, const char **why);
    /* Show @answer, which was no error, to people; NULL: as it came, in lines.
     * Returns the exit status. */
    int (*show)(const json_t *answer, FILE *out);
    const char *help;
};

extern const struct ctl_word CTL_WORDS[];
extern const size_t N_CTL_WORDS;

/* --- how answers are shown; ctl_show.c --- */

int ctl_show_health(const json_t *answer, FILE *out);
int ctl_show_ready(const json_t *answer, FILE *out);
int ctl_show_limits(const json_t *answer, FILE *out);
int ctl_show_routes(const json_t *answer, FILE *out);
int ctl_show_key(const json_t *answer, FILE *out);
int ctl_show_upstreams(const json_t *answer, FILE *out);
int ctl_show_reload(const json_t *answer, FILE *out);
int ctl_show_reset(const json_t *answer, FILE *out);

/* --- ctl_bans.c --- */

json_t *ctl_make_ban(int n_arguments, char **arguments, const char **why);
int ctl_show_ban(const json_t *answer, FILE *out);
int ctl_show_bans(const json_t *answer, FILE *out);

/* What an operator has said of the key that @answer tells of, if anything. */
void ctl_show_ban_of_key(const json_t *answer, FILE *out);

int ctl_show_top(const json_t *answer, FILE *out); /* ctl_top.c */

/* Any answer, in lines of "name: value", indented. Returns EXIT_DONE. */
int ctl_show_tree(const json_t *answer, FILE *out);

#endif /* SLUICE_APP_CTL_WORDS_H */

/* Reading answers: what an answer lacks, as one of another version may, is empty, or 0. */

#ifndef SLUICE_APP_CTL_JSON_H
#define SLUICE_APP_CTL_JSON_H

#include <jansson.h>
#include <stdio.h>

static inline const char *ctl_text_at(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

static inline json_int_t ctl_number_at(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

/* One line, what is not printable in it escaped; ctl_table.c. */
void ctl_print_line(const char *text, FILE *out);

#endif /* SLUICE_APP_CTL_JSON_H */

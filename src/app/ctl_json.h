/* Reading answers: what an answer lacks, as one of another version may, is empty, or 0. */

#ifndef SLUICE_APP_CTL_JSON_H
#define SLUICE_APP_CTL_JSON_H

#include <jansson.h>

static inline const char *ctl_text_at(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

static inline long long ctl_number_at(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

#endif /* SLUICE_APP_CTL_JSON_H */

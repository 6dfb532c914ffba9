/* Any JSON as a tree in YAML, as people write policies. */

#ifndef SLUICE_POLICY_YAML_TEXT_H
#define SLUICE_POLICY_YAML_TEXT_H

#include <stdio.h>

struct json_t;

/* Write @value: indented lines of "name: value", which loaders of YAML 1.1 and 1.2 read back as it
 * is. Unprintable bytes are escaped. */
void yaml_text_write(struct json_t *value, FILE *out);

#endif /* SLUICE_POLICY_YAML_TEXT_H */

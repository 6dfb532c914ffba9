/* Writes message heads: status lines, fields, dates. */

#ifndef SLUICE_HTTP_MESSAGE_H
#define SLUICE_HTTP_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

#include "base/span.h"
#include "base/text.h"

/* "HTTP/1.1 429 Too Many Requests\r\n". The phrase is empty for a status without a registered
 * one. */
void message_write_status_line(struct text *text, uint16_t status);

/* The registered reason phrase, or "". */
struct span message_reason(uint16_t status);

/* "Name: value\r\n" */
void message_write_field(struct text *text, struct span name, struct span value);
void message_write_field_u64(struct text *text, struct span name, uint64_t value);

enum { MESSAGE_DATE_BYTES = 29 };

/* IMF-fixdate of @wall_us (us since the epoch), RFC 9110 section 5.6.7, without a NUL. */
void message_write_date(char buffer[MESSAGE_DATE_BYTES], uint64_t wall_us);

#endif /* SLUICE_HTTP_MESSAGE_H */

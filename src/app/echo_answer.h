/* The answer of `sluice echo` to one request: the request told back as JSON, or as many bytes as
 * its query asks for.
 *
 *   ?status=503      that status (200 … 599)
 *   ?bytes=1048576   that many bytes of 'x' instead of the JSON
 *   ?chunked=1       in the chunked coding (to HTTP/1.0: until the connection closes)
 *   ?delay_ms=100    so long after the request was read
 *   ?close=1         and close the connection after it
 */

#ifndef SLUICE_APP_ECHO_ANSWER_H
#define SLUICE_APP_ECHO_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/span.h"
#include "base/text.h"
#include "http/chunked.h"
#include "http/head.h"

enum {
    ECHO_HEAD_BYTES_MAX = 64 * 1024,
    ECHO_BODY_BYTES_MAX = 4096, /* of the request's body, told back; the rest is counted */
    /* A byte of a head takes three at most (U+FFFD), one of the body six (an escape); the names of
     * the members and the brackets of the fields come on top. */
    ECHO_JSON_BYTES_MAX =
        3 * ECHO_HEAD_BYTES_MAX + 6 * ECHO_BODY_BYTES_MAX + 8 * HEAD_FIELDS_MAX + 256,
    ECHO_SLICES_MAX = 4,
};

enum echo_stage {
    ECHO_HEAD,   /* with the JSON, if that is the content */
    ECHO_FILLER, /* a piece at a time */
    ECHO_END,    /* of the chunked coding */
    ECHO_ALL_OUT,
};

struct echo_answer {
    /* what the request asks for */
    uint16_t status;
    uint8_t minor;    /* of the request's version */
    bool is_filler;   /* `bytes` was given */
    bool has_content; /* not for HEAD, 204, 304 */
    bool is_chunked;
    bool is_delimited; /* by a length or chunks; else by the end of the connection */
    bool keep_alive;   /* after this answer */
    uint64_t delay_us;
    uint64_t filler_left; /* bytes */

    /* what was received */
    char body[ECHO_BODY_BYTES_MAX];
    size_t n_body;       /* bytes kept */
    uint64_t body_bytes; /* received */

    /* what goes out */
    enum echo_stage stage;
    struct text head;
    struct text json;
    char head_buffer[512];
    char json_buffer[ECHO_JSON_BYTES_MAX];
    char chunk_line[CHUNK_HEAD_BYTES_MAX];
};

/* A request's head was read; nothing of it is needed afterwards. */
void echo_answer_begin(struct echo_answer *answer, const struct head *head);

/* More of its body, decoded. */
void echo_answer_add_body(struct echo_answer *answer, struct span content);

/* The request is complete: compose the answer, dated @wall_us. */
void echo_answer_end(struct echo_answer *answer, uint64_t wall_us);

/* Instead of all that: the answer to what is no request. The connection closes after it. */
void echo_answer_refuse(struct echo_answer *answer, const struct http_error *error,
                        uint64_t wall_us);

/* What to write next into @slices, which stays until the next call; returns
 * how many, 0 at the end. */
int echo_answer_next(struct echo_answer *answer, struct iovec slices[ECHO_SLICES_MAX]);

#endif /* SLUICE_APP_ECHO_ANSWER_H */

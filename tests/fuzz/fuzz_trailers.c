/* Trailers that are passed on: whatever came, what is kept is a trailer section again, of lines
 * that stood there, and keeping it once more changes nothing. The input is a chunked body. */

#include <stdlib.h>
#include <string.h>

#include "base/limits.h"
#include "fuzz/must_hold.h"
#include "http/chunked.h"
#include "proxy/exchange/hop_by_hop.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char RESPONSE[] =
    "HTTP/1.1 200 OK\r\nConnection: x-named, , close\r\nTransfer-Encoding: chunked\r\n\r\n";

/* Its trailers as they came, in @section; false: the body is not whole. */
static bool decode(const char *body, size_t len, char *section, size_t *n_bytes)
{
    struct chunked_decoder decoder;
    struct http_error error;
    struct span content;
    size_t consumed;
    char *copy = malloc(len + 1);
    MUST_HOLD(copy != NULL);
    memcpy(copy, body, len);
    chunked_decoder_init(&decoder);
    decoder.trailers = section;
    const enum parse_result result =
        chunked_decode(&decoder, copy, len, &content, &consumed, &error);
    free(copy);
    *n_bytes = decoder.trailer_bytes;
    return result == PARSE_DONE;
}

/* A body of nothing but @kept behind it is read to its end, with the same trailers. */
static void check_written(struct span kept, const struct head *response, const struct route *route)
{
    char *body = malloc(kept.len + 5);
    char *section = malloc(TRAILER_BYTES_MAX);
    size_t n_bytes;
    MUST_HOLD(body != NULL && section != NULL);
    memcpy(body, "0\r\n", 3);
    memcpy(body + 3, kept.data, kept.len);
    memcpy(body + 3 + kept.len, "\r\n", 2);
    MUST_HOLD(decode(body, kept.len + 5, section, &n_bytes));
    MUST_HOLD(n_bytes == kept.len + 2 && memcmp(section, kept.data, kept.len) == 0);
    MUST_HOLD(trailers_keep(section, n_bytes, response, route).len == kept.len);
    free(section);
    free(body);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct span removed[] = {{"X-Removed", 9}};
    const struct route_edits edits = {.response = {.names = removed, .n_names = 1}};
    const struct route route = {
        .cost = {.kind = COST_RESPONSE_HEADER, .strip = true, .field = SPAN("x-cost")},
        .edits = &edits,
    };
    struct field fields[4];
    struct head_parser parser = {.fields = fields, .n_fields_max = 4, .head_bytes_max = 256};
    struct head response;
    size_t consumed;
    size_t n_bytes;
    char *section = malloc(TRAILER_BYTES_MAX);

    MUST_HOLD(section != NULL);
    MUST_HOLD(head_parse_response(&parser, span_of_text(RESPONSE), false, &response, &consumed) ==
              PARSE_DONE);
    if (decode((const char *)data, size, section, &n_bytes)) {
        const struct span kept = trailers_keep(section, n_bytes, &response, &route);
        MUST_HOLD(kept.len + 2 <= n_bytes);
        check_written(kept, &response, &route);
    }
    free(section);
    return 0;
}

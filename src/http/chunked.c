/* A machine that takes an octet at a time, but for chunk data, which it takes in runs:
 *
 *   SIZE ─► (SPACE ─►) (EXT_NAME ─► EXT ─►) SIZE_LF ─► DATA ─► DATA_CR ─► DATA_LF ─► SIZE
 *                                              │ size 0
 *                                              ▼
 *   DONE ◄─ END_LF ◄─ TRAILER ─► TRAILER_NAME ─► TRAILER_VALUE ─► TRAILER_LF ─► TRAILER
 *
 * A step takes an octet and returns NULL, or what is wrong. */

#include "http/chunked.h"

#include "base/limits.h"
#include "http/octet.h"

enum state {
    SIZE,
    SPACE,
    EXT_NAME,
    EXT,
    SIZE_LF,
    DATA,
    DATA_CR,
    DATA_LF,
    TRAILER,
    TRAILER_NAME,
    TRAILER_VALUE,
    TRAILER_LF,
    END_LF,
    DONE,
    BAD,
};

enum { CHUNK_SIZE_DIGITS_MAX = CHUNK_HEAD_BYTES_MAX - 2 }; /* of 64 bits; CR LF behind them */

static const char SIZE_FAULT[] = "a chunk size is not a hexadecimal number below 2^63";
static const char EXT_FAULT[] = "a chunk extension is malformed";
static const char DATA_FAULT[] = "chunk data does not end in CR LF where its size says";
static const char TRAILER_FAULT[] = "a trailer line is malformed";
static const char LINE_FAULT[] = "a chunk line does not end in CR LF";

static const char *move_to(struct chunked_decoder *decoder, enum state state)
{
    decoder->state = (int)state;
    return NULL;
}

static const char *expect(struct chunked_decoder *decoder, char c, char expected, enum state next,
                          const char *fault)
{
    return c == expected ? move_to(decoder, next) : fault;
}

static const char *on_digit(struct chunked_decoder *decoder, char c)
{
    if (decoder->n_digits == CHUNK_SIZE_DIGITS_MAX || decoder->chunk_left > INT64_MAX >> 4) {
        return SIZE_FAULT;
    }
    decoder->n_digits++;
    decoder->chunk_left = decoder->chunk_left << 4 | octet_hex_value(c);
    return NULL;
}

static const char *on_size(struct chunked_decoder *decoder, char c)
{
    if (octet_is(c, OCTET_HEX)) {
        return on_digit(decoder, c);
    }
    if (decoder->n_digits == 0) {
        return SIZE_FAULT;
    }
    if (c == ' ' || c == '\t') {
        return move_to(decoder, SPACE);
    }
    return c == ';' ? move_to(decoder, EXT_NAME) : expect(decoder, c, '\r', SIZE_LF, SIZE_FAULT);
}

static const char *on_space(struct chunked_decoder *decoder, char c)
{
    return c == ' ' || c == '\t' ? NULL : expect(decoder, c, ';', EXT_NAME, SIZE_FAULT);
}

static const char *on_ext_name(struct chunked_decoder *decoder, char c)
{
    if (c == ' ' || c == '\t') {
        return NULL;
    }
    return octet_is(c, OCTET_TCHAR) ? move_to(decoder, EXT) : EXT_FAULT;
}

static const char *on_ext(struct chunked_decoder *decoder, char c)
{
    return octet_is(c, OCTET_VALUE) ? NULL : expect(decoder, c, '\r', SIZE_LF, EXT_FAULT);
}

static const char *on_size_lf(struct chunked_decoder *decoder, char c)
{
    decoder->line_bytes = 0;
    decoder->n_digits = 0;
    return expect(decoder, c, '\n', decoder->chunk_left > 0 ? DATA : TRAILER, LINE_FAULT);
}

static const char *on_data_cr(struct chunked_decoder *decoder, char c)
{
    return expect(decoder, c, '\r', DATA_LF, DATA_FAULT);
}

static const char *on_data_lf(struct chunked_decoder *decoder, char c)
{
    return expect(decoder, c, '\n', SIZE, DATA_FAULT);
}

static const char *on_trailer(struct chunked_decoder *decoder, char c)
{
    return octet_is(c, OCTET_TCHAR) ? move_to(decoder, TRAILER_NAME)
                                    : expect(decoder, c, '\r', END_LF, TRAILER_FAULT);
}

static const char *on_trailer_name(struct chunked_decoder *decoder, char c)
{
    return octet_is(c, OCTET_TCHAR) ? NULL : expect(decoder, c, ':', TRAILER_VALUE, TRAILER_FAULT);
}

static const char *on_trailer_value(struct chunked_decoder *decoder, char c)
{
    return octet_is(c, OCTET_VALUE) ? NULL : expect(decoder, c, '\r', TRAILER_LF, TRAILER_FAULT);
}

static const char *on_trailer_lf(struct chunked_decoder *decoder, char c)
{
    return expect(decoder, c, '\n', TRAILER, TRAILER_FAULT);
}

static const char *on_end_lf(struct chunked_decoder *decoder, char c)
{
    return expect(decoder, c, '\n', DONE, TRAILER_FAULT);
}

/* What an octet of this state counts towards, beside its step. */
enum budget {
    BUDGET_NONE,
    BUDGET_LINE,
    BUDGET_EXT, /* and the line */
    BUDGET_TRAILER,
};

static const struct {
    const char *(*step)(struct chunked_decoder *decoder, char c);
    enum budget budget;
} STATES[] = {
    [SIZE] = {on_size, BUDGET_LINE},
    [SPACE] = {on_space, BUDGET_EXT},
    [EXT_NAME] = {on_ext_name, BUDGET_EXT},
    [EXT] = {on_ext, BUDGET_EXT},
    [SIZE_LF] = {on_size_lf, BUDGET_LINE},
    [DATA_CR] = {on_data_cr, BUDGET_NONE},
    [DATA_LF] = {on_data_lf, BUDGET_NONE},
    [TRAILER] = {on_trailer, BUDGET_TRAILER},
    [TRAILER_NAME] = {on_trailer_name, BUDGET_TRAILER},
    [TRAILER_VALUE] = {on_trailer_value, BUDGET_TRAILER},
    [TRAILER_LF] = {on_trailer_lf, BUDGET_TRAILER},
    [END_LF] = {on_end_lf, BUDGET_TRAILER},
};

static struct http_error spend(struct chunked_decoder *decoder, enum budget budget)
{
    static const struct http_error none = {0};

    if (budget == BUDGET_TRAILER && ++decoder->trailer_bytes > TRAILER_BYTES_MAX) {
        return (struct http_error){431, "the trailers are too large"};
    }
    if (budget == BUDGET_EXT && ++decoder->ext_bytes > CHUNK_EXT_BYTES_MAX) {
        return (struct http_error){400, "the chunk extensions are too large"};
    }
    if ((budget == BUDGET_LINE || budget == BUDGET_EXT) &&
        ++decoder->line_bytes > CHUNK_LINE_BYTES_MAX) {
        return (struct http_error){400, "a chunk line is too long"};
    }
    return none;
}

static struct http_error take_octet(struct chunked_decoder *decoder, char c)
{
    struct http_error error = spend(decoder, STATES[decoder->state].budget);

    if (error.reason == NULL) {
        if (decoder->trailers != NULL && STATES[decoder->state].budget == BUDGET_TRAILER) {
            decoder->trailers[decoder->trailer_bytes - 1] = c;
        }
        error = (struct http_error){400, STATES[decoder->state].step(decoder, c)};
    }
    return error;
}

/* The content found so far: it starts where the first chunk's data does. */
struct run {
    char *start;
    size_t len;
};

/* Take what @data has of the chunk and move it to the end of @run. */
static size_t take_data(struct chunked_decoder *decoder, char *data, size_t len, struct run *run)
{
    const size_t n = decoder->chunk_left < len ? (size_t)decoder->chunk_left : len;

    if (run->len == 0) {
        run->start = data;
    } else {
        memmove(run->start + run->len, data, n);
    }
    run->len += n;
    decoder->chunk_left -= n;
    if (decoder->chunk_left == 0) {
        decoder->state = DATA_CR;
    }
    return n;
}

void chunked_decoder_init(struct chunked_decoder *decoder)
{
    *decoder = (struct chunked_decoder){.state = SIZE};
}

static enum parse_result go_bad(struct chunked_decoder *decoder, struct http_error why,
                                struct http_error *error)
{
    decoder->state = BAD;
    *error = why;
    return PARSE_BAD;
}

enum parse_result chunked_decode(struct chunked_decoder *decoder, char *data, size_t len,
                                 struct span *content, size_t *consumed, struct http_error *error)
{
    struct run run = {.start = data};
    size_t at = 0;

    *content = span_of(data, 0);
    *consumed = 0;
    if (decoder->state == (int)BAD) {
        return go_bad(decoder, (struct http_error){400, "the body was bad before"}, error);
    }
    while (at < len && decoder->state != (int)DONE) {
        if (decoder->state == (int)DATA) {
            at += take_data(decoder, data + at, len - at, &run);
            continue;
        }
        const struct http_error fault = take_octet(decoder, data[at]);
        if (fault.reason != NULL) {
            return go_bad(decoder, fault, error);
        }
        at++;
    }
    *content = span_of(run.start, run.len);
    *consumed = at;
    return decoder->state == (int)DONE ? PARSE_DONE : PARSE_PARTIAL;
}

size_t chunked_write_head(char buffer[CHUNK_HEAD_BYTES_MAX], uint64_t content_bytes)
{
    static const char digits[] = "0123456789abcdef";
    size_t n_digits = 1;

    while (n_digits < CHUNK_SIZE_DIGITS_MAX && content_bytes >> (4 * n_digits) != 0) {
        n_digits++;
    }
    for (size_t i = 0; i < n_digits; i++) {
        buffer[i] = digits[content_bytes >> (4 * (n_digits - 1 - i)) & 15];
    }
    buffer[n_digits] = '\r';
    buffer[n_digits + 1] = '\n';
    return n_digits + 2;
}

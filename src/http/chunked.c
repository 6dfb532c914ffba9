/* A state machine. It takes one octet at a time, except chunk data, which it takes in runs:
 *
 *   SIZE ─► (SPACE ─►) (EXT_NAME ─► EXT ─►) SIZE_LF ─► DATA ─► DATA_CR ─► DATA_LF ─► SIZE
 *                                              │ size 0
 *                                              ▼
 *   DONE ◄─ END_LF ◄─ TRAILER ─► TRAILER_NAME ─► TRAILER_VALUE ─► TRAILER_LF ─► TRAILER
 *
 * A step takes one octet and returns NULL, or a phrase that describes the fault. */

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

enum { CHUNK_SIZE_DIGITS_MAX = CHUNK_HEAD_BYTES_MAX - 2 }; /* of 64 bits; CR LF follow them */

static const char SIZE_FAULT[] = "a chunk size is not a hexadecimal number below 2^63";
static const char EXT_FAULT[] = "a chunk extension is malformed";
static const char DATA_FAULT[] = "chunk data does not end in CR LF where its size says";
static const char TRAILER_FAULT[] = "a trailer line is malformed";
static const char LINE_FAULT[] = "a chunk line does not end in CR LF";

/* The length limit that an octet counts towards in a state. */
enum budget {
    BUDGET_NONE,
    BUDGET_LINE,
    BUDGET_EXT, /* the line's limit too */
    BUDGET_TRAILER,
};

enum { NO_END = -1 };

/* What a state takes, besides chunk data and sizes. Anything else is the fault. */
static const struct {
    enum budget budget;
    bool skips_blanks;
    unsigned classes;  /* octets of these lead to `inside` */
    enum state inside; /* the state itself, or the next one */
    int end;           /* the octet that leads to `after` */
    enum state after;
    const char *fault;
} STATES[] = {
    [SIZE] = {BUDGET_LINE, false, 0, SIZE, '\r', SIZE_LF, SIZE_FAULT},
    [SPACE] = {BUDGET_EXT, true, 0, SPACE, ';', EXT_NAME, SIZE_FAULT},
    [EXT_NAME] = {BUDGET_EXT, true, OCTET_TCHAR, EXT, NO_END, BAD, EXT_FAULT},
    [EXT] = {BUDGET_EXT, false, OCTET_VALUE, EXT, '\r', SIZE_LF, EXT_FAULT},
    [SIZE_LF] = {BUDGET_LINE, false, 0, SIZE_LF, '\n', DATA, LINE_FAULT},
    [DATA_CR] = {BUDGET_NONE, false, 0, DATA_CR, '\r', DATA_LF, DATA_FAULT},
    [DATA_LF] = {BUDGET_NONE, false, 0, DATA_LF, '\n', SIZE, DATA_FAULT},
    [TRAILER] = {BUDGET_TRAILER, false, OCTET_TCHAR, TRAILER_NAME, '\r', END_LF, TRAILER_FAULT},
    [TRAILER_NAME] = {BUDGET_TRAILER, false, OCTET_TCHAR, TRAILER_NAME, ':', TRAILER_VALUE,
                      TRAILER_FAULT},
    [TRAILER_VALUE] = {BUDGET_TRAILER, false, OCTET_VALUE, TRAILER_VALUE, '\r', TRAILER_LF,
                       TRAILER_FAULT},
    [TRAILER_LF] = {BUDGET_TRAILER, false, 0, TRAILER_LF, '\n', TRAILER, TRAILER_FAULT},
    [END_LF] = {BUDGET_TRAILER, false, 0, END_LF, '\n', DONE, TRAILER_FAULT},
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* In SIZE, an octet other than the CR after the size. */
static const char *take_size(struct chunked_decoder *decoder, char c)
{
    if (octet_is(c, OCTET_HEX)) {
        if (decoder->n_digits == CHUNK_SIZE_DIGITS_MAX || decoder->chunk_left > INT64_MAX >> 4) {
            return SIZE_FAULT;
        }
        decoder->n_digits++;
        decoder->chunk_left = decoder->chunk_left << 4 | octet_hex_value(c);
        return NULL;
    }
    if (decoder->n_digits == 0 || (!is_blank(c) && c != ';')) {
        return SIZE_FAULT;
    }
    decoder->state = c == ';' ? (int)EXT_NAME : (int)SPACE;
    return NULL;
}

static const char *step(struct chunked_decoder *decoder, char c)
{
    const enum state state = (enum state)decoder->state;
    if (state == SIZE && (c != '\r' || decoder->n_digits == 0)) {
        return take_size(decoder, c);
    }
    if (STATES[state].skips_blanks && is_blank(c)) {
        return NULL;
    }
    if (octet_is(c, STATES[state].classes)) {
        decoder->state = (int)STATES[state].inside;
        return NULL;
    }
    if (c != STATES[state].end) {
        return STATES[state].fault;
    }
    decoder->state = (int)STATES[state].after;
    if (state == SIZE_LF) {
        decoder->line_bytes = 0;
        decoder->n_digits = 0;
        decoder->state = decoder->chunk_left > 0 ? (int)DATA : (int)TRAILER;
    }
    return NULL;
}

static struct http_error spend(struct chunked_decoder *decoder, enum budget budget)
{
    static const struct http_error none = {0};

    if (budget == BUDGET_TRAILER && ++decoder->trailer_bytes > TRAILER_BYTES_MAX) {
        return (struct http_error){.status = 431, .reason = "the trailers are too large"};
    }
    if (budget == BUDGET_EXT && ++decoder->ext_bytes > CHUNK_EXT_BYTES_MAX) {
        return (struct http_error){.status = 400, .reason = "the chunk extensions are too large"};
    }
    if ((budget == BUDGET_LINE || budget == BUDGET_EXT) &&
        ++decoder->line_bytes > CHUNK_LINE_BYTES_MAX) {
        return (struct http_error){.status = 400, .reason = "a chunk line is too long"};
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
        error = (struct http_error){.status = 400, .reason = step(decoder, c)};
    }
    return error;
}

/* The content found so far: it starts at the first chunk's data. */
struct run {
    char *start;
    size_t len;
};

/* Take the chunk data at the start of @data and move it to the end of @run. */
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
        return go_bad(decoder,
                      (struct http_error){.status = 400, .reason = "the body was bad before"},
                      error);
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

#include "simulation/log_source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool log_source_read(struct log_source *source, char *bytes, size_t len, struct log_line *line)
{
    switch (source->format) {
    case REPLAY_COMBINED:
        return log_combined_read(bytes, len, &source->clock, line);
    case REPLAY_JSON:
        return log_json_read(bytes, len, source->fields, &source->clock, line);
    case REPLAY_LOGFMT:
        return log_logfmt_read(bytes, len, source->fields, &source->clock, line);
    case REPLAY_AUTO:
        break;
    }
    return false;
}

/* --- the first lines --- */

/* What lines look like in a format. */
struct survey {
    size_t n_lines;
    size_t n_read;
};

static int compare_times(const void *a, const void *b)
{
    const uint64_t *left = a;
    const uint64_t *right = b;
    return (*left > *right) - (*left < *right);
}

/* The earliest of @n times, but for those long before most of them: of a clock that was not set. */
static uint64_t earliest_of(uint64_t *times, size_t n)
{
    const uint64_t year_us = UINT64_C(366) * 24 * 3600 * 1000 * 1000;
    size_t first = 0;
    if (n == 0) {
        return UINT64_MAX;
    }
    qsort(times, n, sizeof(times[0]), compare_times);
    while (times[n / 2] - times[first] > year_us) {
        first++;
    }
    return times[first];
}

static void note_line(struct log_source *source, const struct log_line *line)
{
    source->parts |= line->parts;
    source->has_query = source->has_query || span_find(line->target, '?') < line->target.len ||
                        (line->parts >> LOG_REQUEST & 1) != 0;
}

/* Read copies of the first lines as source->format, up to @n_max of them,
 * LOG_SURVEY_LINES at most. */
static struct survey look(struct log_source *source, struct span first, size_t n_max, char *copy)
{
    struct survey survey = {0};
    uint64_t times[LOG_SURVEY_LINES];
    struct span text;
    source->parts = 0;
    source->has_query = false;
    while (survey.n_lines < n_max && span_split(&first, '\n', &text)) {
        struct log_line line;
        if (first.data == NULL && !source->reader.has_ended) {
            break; /* the block ends within it */
        }
        text.len -= text.len > 0 && text.data[text.len - 1] == '\r';
        if (text.len == 0 || text.len > LOG_LINE_BYTES_MAX) {
            continue;
        }
        survey.n_lines++;
        memcpy(copy, text.data, text.len);
        if (log_source_read(source, copy, text.len, &line)) {
            times[survey.n_read++] = line.time_us;
            note_line(source, &line);
        }
    }
    source->earliest_us = earliest_of(times, survey.n_read);
    return survey;
}

static bool find_format(struct log_source *source, struct span first, char *copy)
{
    static const enum replay_format FORMATS[] = {REPLAY_COMBINED, REPLAY_JSON, REPLAY_LOGFMT};
    enum { LOOKED_AT = 50 };
    enum replay_format best = REPLAY_AUTO;
    size_t most = 0;
    for (size_t i = 0; i < ARRAY_LEN(FORMATS); i++) {
        source->format = FORMATS[i];
        const struct survey survey = look(source, first, LOOKED_AT, copy);
        if (survey.n_read > most) {
            most = survey.n_read;
            best = FORMATS[i];
        }
    }
    source->format = best;
    return best != REPLAY_AUTO;
}

static enum status survey_lines(struct log_source *source, struct span first, struct text *problem)
{
    char *copy = malloc(LOG_LINE_BYTES_MAX);
    if (copy == NULL) {
        text_add_literal(problem, "out of memory");
        return STATUS_NO_MEMORY;
    }
    enum status status = STATUS_OK;
    if (source->format == REPLAY_AUTO && !find_format(source, first, copy)) {
        text_add_format(problem,
                        "%s: none of its first lines reads as combined, json or logfmt with a time "
                        "and a client's address; --format says which it is, --field what its "
                        "fields mean",
                        source->path);
        status = STATUS_INVALID;
    } else if (look(source, first, LOG_SURVEY_LINES, copy).n_read == 0) {
        text_add_format(problem,
                        "%s: none of its first lines reads in that format, with a time and a "
                        "client's address; --field says what fields mean",
                        source->path);
        status = STATUS_INVALID;
    }
    free(copy);
    return status;
}

/* --- the file --- */

static enum status open_file(struct log_source *source, struct log_blocks *blocks)
{
    struct stat stat;
    const bool is_stdin = strcmp(source->path, "-") == 0;
    const int fd = is_stdin ? dup(STDIN_FILENO) : open(source->path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return STATUS_IO;
    }
    if (fstat(fd, &stat) == 0 && S_ISREG(stat.st_mode)) {
        source->size = (uint64_t)stat.st_size;
    }
    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    log_reader_init(&source->reader, fd, blocks);
    return STATUS_OK;
}

static bool is_compressed(struct span first)
{
    return span_starts_with(first, SPAN("\x1f\x8b")) || span_starts_with(first, SPAN("BZh")) ||
           span_starts_with(first, SPAN("\x28\xb5\x2f\xfd")) ||
           span_starts_with(first, SPAN("\xfd"
                                        "7zXZ"));
}

static enum status look_inside(struct log_source *source, struct text *problem)
{
    const char *bytes = NULL;
    size_t len = 0;
    const enum status status = log_reader_peek(&source->reader, &bytes, &len);
    if (status != STATUS_OK) {
        text_add_format(problem, "%s: cannot be read: %s", source->path,
                        status == STATUS_IO ? strerror(errno) : status_text(status));
        return status;
    }
    if (is_compressed(span_of(bytes, len))) {
        text_add_format(problem, "%s: is compressed; zcat (bzcat, zstdcat, xzcat) it to \"-\"",
                        source->path);
        return STATUS_INVALID;
    }
    source->is_empty = len == 0;
    return source->is_empty ? STATUS_OK : survey_lines(source, span_of(bytes, len), problem);
}

enum status log_source_open(struct log_source *source, const char *path, enum replay_format format,
                            const struct log_fields *fields, struct log_blocks *blocks,
                            struct text *problem)
{
    *source = (struct log_source){
        .path = path, .format = format, .fields = fields, .earliest_us = UINT64_MAX};
    source->reader.fd = -1;
    if (open_file(source, blocks) != STATUS_OK) {
        text_add_format(problem, "%s: cannot be read: %s", path, strerror(errno));
        return STATUS_IO;
    }
    const enum status status = look_inside(source, problem);
    source->clock.len = 0;
    if (status != STATUS_OK) {
        log_source_close(source);
    }
    return status;
}

void log_source_close(struct log_source *source)
{
    log_reader_close(&source->reader);
}

/* Happy path: the file is read whole ─► each line is parsed ─► no key stands twice.
 *
 * Failures: a file that cannot be read, is none or is too large; a line that cannot be parsed; a
 * plan that no limit has; a key that stands twice. Each is reported with its line, without the key,
 * which may be a secret. */

#include "policy/tenants_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/text.h"
#include "policy/key.h"

enum {
    FILE_BYTES_MAX = 256 * 1024 * 1024,
    LINES_STEP = 1024,
};

/* The largest number of milliseconds that a double holds exactly, as in the table in Redis. */
static const uint64_t MS_MAX = UINT64_C(1) << 53;

/* --- words --- */

/* A part of a line, and where it is. */
struct word {
    struct span text;
    uint32_t column; /* from 1 */
};

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* Cuts the next word from @line at *@at. One with quotes, which a key has behind "=", may hold
 * blanks, and a backslash before a quote. Empty: there is none, or a comment. */
static struct word take_word(struct span line, size_t *at)
{
    while (*at < line.len && is_blank(line.data[*at])) {
        (*at)++;
    }
    const size_t start = *at;
    bool is_quoted = false;
    while (*at < line.len && (is_quoted || !is_blank(line.data[*at])) &&
           !(*at == start && line.data[start] == '#')) {
        const char c = line.data[*at];
        if (c == '"' && (is_quoted || (*at > start && line.data[*at - 1] == '='))) {
            is_quoted = !is_quoted;
        }
        *at += is_quoted && c == '\\' && *at + 1 < line.len ? 2 : 1;
    }
    return (struct word){span_of(line.data + start, *at - start), (uint32_t)start + 1};
}

/* --- one line --- */

/* What all lines share. */
struct reading {
    const struct policy *policy;
    struct tenants_file *file;
    struct diags *diags;
    size_t n_room; /* of file->lines */
    bool no_memory;
};

/* A key is written as those of the first limit that looks for tenants: its values are not shown. */
static void report_key(const struct reading *reading, uint32_t number, uint32_t column)
{
    char buffer[1024];
    struct text text = text_of(buffer, sizeof(buffer));
    const struct limit_rule *rule = NULL;
    for (size_t i = 0; i < reading->policy->n_rules && rule == NULL; i++) {
        rule =
            limit_rule_has_tenants(&reading->policy->rules[i]) ? &reading->policy->rules[i] : NULL;
    }
    for (size_t i = 0; rule != NULL && i < rule->key.n_parts; i++) {
        text_add(&text, i > 0 ? SPAN(",") : SPAN(""));
        key_print_term(&rule->key.parts[i].terms[0], &text);
        text_add_literal(&text, "=VALUE");
    }
    diags_add(reading->diags, DIAG_ERROR, number, column,
              "this is the key of no limit with \"plan: tenant\": write it as %.*s, in quotes "
              "where the value has blanks, or as its hash",
              SPAN_ARGS(text_span(&text)));
}

/* The word itself is shown only where it is much like a plan: it may be a part of a key. */
static void report_plan(const struct reading *reading, uint32_t number, const struct word *word)
{
    char buffer[256];
    struct text text = text_of(buffer, sizeof(buffer));
    struct suggest suggest;
    suggest_init(&suggest, word->text);
    for (size_t i = 0; i < reading->policy->n_rules; i++) {
        const struct limit_rule *rule = &reading->policy->rules[i];
        for (size_t j = 0; j < rule->n_plans && limit_rule_has_tenants(rule); j++) {
            suggest_offer(&suggest, rule->plans[j].name);
        }
    }
    suggest_write(&suggest, &text);
    diags_add(reading->diags, DIAG_ERROR, number, word->column,
              "no limit with \"plan: tenant\" has this plan, or takes it as numbers%.*s",
              SPAN_ARGS(text_span(&text)));
}

static bool read_until(struct span word, uint64_t *until_ms)
{
    uint64_t us;
    if (word.len == 0 || span_to_u64(word, MS_MAX, until_ms)) {
        return true;
    }
    if (!timestamp_parse(word, &us)) {
        return false;
    }
    *until_ms = us / 1000;
    return *until_ms > 0;
}

/* Adds @line, whose texts are copied. */
static void keep(struct reading *reading, const struct tenant_line *line)
{
    struct tenants_file *file = reading->file;
    if (file->n == reading->n_room) {
        const size_t n_room = reading->n_room * 2 + LINES_STEP;
        struct tenant_line *larger = realloc(file->lines, n_room * sizeof(*larger));
        if (larger == NULL) {
            reading->no_memory = true;
            return;
        }
        file->lines = larger;
        reading->n_room = n_room;
    }
    struct tenant_line *kept = &file->lines[file->n++];
    *kept = *line;
    kept->key = arena_copy(&file->arena, line->key);
    const bool is_as_before = file->n > 1 && span_equals(kept[-1].plan, line->plan);
    kept->plan = is_as_before ? kept[-1].plan : arena_copy(&file->arena, line->plan);
    reading->no_memory = kept->key.data == NULL || kept->plan.data == NULL;
}

static bool read_key(struct span word, const struct policy *policy, struct key_given *given,
                     struct text *digits, struct tenant_line *line)
{
    char buffer[512];
    struct text problem = text_of(buffer, sizeof(buffer)); /* it may quote the key */
    if (!policy_parse_tenant(policy, word, given, &problem)) {
        return false;
    }
    text_add_hex(digits, given->hash, sizeof(given->hash));
    memcpy(line->hash, given->hash, sizeof(line->hash));
    line->is_hash = given->len == 0;
    line->key = line->is_hash ? text_span(digits) : key_given_identity(given);
    return true;
}

/* The plan of the line before is known to be one. */
static bool is_plan(const struct reading *reading, struct span name)
{
    const struct tenants_file *file = reading->file;
    return (file->n > 0 && span_equals(file->lines[file->n - 1].plan, name)) ||
           policy_has_tenant_plan(reading->policy, name);
}

static void read_line(struct reading *reading, struct span text, uint32_t number)
{
    struct key_given given;
    char bytes[2 * HASH_IDENTITY_BYTES];
    struct text digits = text_of(bytes, sizeof(bytes));
    struct tenant_line line = {.number = number};
    size_t at = 0;
    const struct word key = take_word(text, &at);
    const struct word plan = take_word(text, &at);
    const struct word until = take_word(text, &at);
    const struct word more = take_word(text, &at);
    struct diags *diags = reading->diags;
    if (key.text.len == 0) {
        return;
    }
    line.plan = plan.text;
    if (plan.text.len == 0) {
        diags_add(diags, DIAG_ERROR, number, plan.column,
                  "the key has no plan: a line is KEY PLAN [UNTIL]");
    } else if (more.text.len > 0 || !read_until(until.text, &line.until_ms)) {
        diags_add(diags, DIAG_ERROR, number, more.text.len > 0 ? more.column : until.column,
                  "a line is KEY PLAN [UNTIL], where UNTIL is as 2036-01-01T00:00:00Z, or in ms "
                  "since the epoch; a value with blanks stands in quotes");
    } else if (!is_plan(reading, plan.text)) {
        report_plan(reading, number, &plan);
    } else if (!read_key(key.text, reading->policy, &given, &digits, &line)) {
        report_key(reading, number, key.column);
    } else if (reading->file->n == TENANTS_MAX) {
        diags_add(diags, DIAG_ERROR, number, 1, "more than %d tenants", TENANTS_MAX);
    } else {
        keep(reading, &line);
    }
}

/* --- keys that stand twice --- */

static int compare(const void *first, const void *second)
{
    const struct tenant_line *a = *(const struct tenant_line *const *)first;
    const struct tenant_line *b = *(const struct tenant_line *const *)second;
    const int by_key = memcmp(a->hash, b->hash, sizeof(a->hash));
    return by_key != 0 ? by_key : (a->number > b->number) - (a->number < b->number);
}

/* A key and its hash are the same key. */
static void check_twice(struct reading *reading)
{
    const size_t n = reading->file->n;
    const struct tenant_line **lines = calloc(n > 0 ? n : 1, sizeof(*lines));
    if (lines == NULL) {
        reading->no_memory = true;
        return;
    }
    for (size_t i = 0; i < n; i++) {
        lines[i] = &reading->file->lines[i];
    }
    qsort(lines, n, sizeof(*lines), compare);
    for (size_t i = 1; i < n; i++) {
        if (memcmp(lines[i - 1]->hash, lines[i]->hash, sizeof(lines[i]->hash)) == 0) {
            diags_add(reading->diags, DIAG_ERROR, lines[i]->number, 1,
                      "the key of line %u stands here again", lines[i - 1]->number);
        }
    }
    free(lines);
}

/* --- the file --- */

enum status tenants_file_parse(const struct policy *policy, struct span text,
                               struct tenants_file *file, struct diags *diags)
{
    struct reading reading = {.policy = policy, .file = file, .diags = diags};
    const size_t n_errors = diags->n_errors;
    struct span rest = text;
    struct span line;
    uint32_t number = 0;
    *file = (struct tenants_file){.n = 0};
    arena_init(&file->arena, NULL, 0);
    while (!reading.no_memory && diags->n_errors < n_errors + POLICY_ERRORS_MAX &&
           span_split(&rest, '\n', &line)) {
        const bool has_return = line.len > 0 && line.data[line.len - 1] == '\r';
        read_line(&reading, span_of(line.data, line.len - has_return), ++number);
    }
    if (!reading.no_memory && diags->n_errors == n_errors) {
        check_twice(&reading);
    }
    return reading.no_memory             ? STATUS_NO_MEMORY
           : diags->n_errors == n_errors ? STATUS_OK
                                         : STATUS_INVALID;
}

/* Reads all of @fd, a regular file. STATUS_IO: errno says why, or EFBIG: it is too large. */
static enum status read_all(int fd, char **bytes, size_t *len)
{
    struct stat found;
    if (fstat(fd, &found) != 0) {
        return STATUS_IO;
    }
    if (!S_ISREG(found.st_mode) || found.st_size > FILE_BYTES_MAX) {
        errno = S_ISREG(found.st_mode) ? EFBIG : S_ISDIR(found.st_mode) ? EISDIR : EINVAL;
        return STATUS_IO;
    }
    const size_t size = (size_t)found.st_size;
    *bytes = malloc(size + 1);
    if (*bytes == NULL) {
        return STATUS_NO_MEMORY;
    }
    ssize_t n = 1;
    while (n > 0 && *len < size) {
        n = read(fd, *bytes + *len, size - *len);
        *len += n > 0 ? (size_t)n : 0;
    }
    return n < 0 ? STATUS_IO : STATUS_OK;
}

enum status tenants_file_read(const struct policy *policy, struct tenants_file *file,
                              struct diags *diags)
{
    char *bytes = NULL;
    size_t len = 0;
    *file = (struct tenants_file){.n = 0};
    /* A FIFO without a writer does not block. */
    const int fd = open(policy->tenants_path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    enum status status = fd >= 0 ? read_all(fd, &bytes, &len) : STATUS_IO;
    if (status == STATUS_IO) {
        diags_add(diags, DIAG_ERROR, 0, 0, "cannot be read: %s", strerror(errno));
    }
    if (fd >= 0) {
        close(fd);
    }
    if (status == STATUS_OK) {
        status = tenants_file_parse(policy, span_of(bytes, len), file, diags);
    }
    free(bytes);
    return status;
}

void tenants_file_close(struct tenants_file *file)
{
    arena_reset(&file->arena);
    free(file->lines);
    *file = (struct tenants_file){.n = 0};
}

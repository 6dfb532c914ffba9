#include "admin/metrics_page.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/text.h"

static const char *const TYPES[] = {
    [METRIC_COUNTER] = "counter",
    [METRIC_GAUGE] = "gauge",
    [METRIC_HISTOGRAM] = "histogram",
};

void metrics_page_open(struct metrics_page *page)
{
    *page = (struct metrics_page){.data = NULL};
    page->file = open_memstream(&page->data, &page->len);
    page->no_memory = page->file == NULL;
}

void metrics_page_close(struct metrics_page *page)
{
    if (page->file != NULL && fclose(page->file) != 0) {
        page->no_memory = true;
    }
    if (page->no_memory) {
        free(page->data);
        page->data = NULL;
    }
}

/* Whether more may be written. */
static bool has_room(struct metrics_page *page)
{
    page->no_memory =
        page->no_memory || ferror(page->file) != 0 || ftello(page->file) > PAGE_BYTES_MAX;
    return !page->no_memory;
}

void metrics_page_begin(struct metrics_page *page, const char *name, enum metric_type type,
                        const char *help)
{
    if (has_room(page)) {
        (void)fprintf(page->file, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, TYPES[type]);
    }
}

/* What is readable of the value, with a backslash before what would end it. */
static void write_label(FILE *file, const struct page_label *label)
{
    char buffer[4 * PAGE_LABEL_BYTES_MAX]; /* \xHH */
    struct text printable = text_of(buffer, sizeof(buffer));
    struct span value = label->value;
    if (value.len > PAGE_LABEL_BYTES_MAX) {
        value.len = PAGE_LABEL_BYTES_MAX;
    }
    text_add_printable(&printable, value);
    (void)fprintf(file, "%s=\"", label->name);
    for (size_t i = 0; i < printable.len; i++) {
        if (buffer[i] == '"' || buffer[i] == '\\') {
            (void)fputc('\\', file);
        }
        (void)fputc(buffer[i], file);
    }
    (void)fputc('"', file);
}

struct span page_seconds(char buffer[PAGE_SECONDS_BYTES], uint64_t us)
{
    const int n =
        snprintf(buffer, PAGE_SECONDS_BYTES, "%" PRIu64 ".%06" PRIu64, us / 1000000, us % 1000000);
    size_t len = (size_t)n;
    while (buffer[len - 1] == '0') {
        len--;
    }
    return span_of(buffer, buffer[len - 1] == '.' ? len - 1 : len);
}

void metrics_page_add(struct metrics_page *page, const struct page_sample *sample)
{
    assert(sample->n_labels <= PAGE_LABELS_MAX);
    if (!has_room(page)) {
        return;
    }
    FILE *file = page->file;
    (void)fprintf(file, "%s%s", sample->name, sample->suffix != NULL ? sample->suffix : "");
    for (size_t i = 0; i < sample->n_labels; i++) {
        (void)fputc(i == 0 ? '{' : ',', file);
        write_label(file, &sample->labels[i]);
    }
    (void)fputs(sample->n_labels > 0 ? "} " : " ", file);
    if (sample->is_us) {
        char buffer[PAGE_SECONDS_BYTES];
        (void)fprintf(file, "%.*s\n", SPAN_ARGS(page_seconds(buffer, sample->value)));
    } else {
        (void)fprintf(file, "%" PRIu64 "\n", sample->value);
    }
}

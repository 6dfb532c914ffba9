#include "proxy/log_line.h"

#include <string.h>

static const struct log_key_text LOGFMT_KEYS[] = {
#define LOGFMT_KEY(name, key) [LOG_##name] = {" " key "=", sizeof(" " key "=") - 1},
    LOG_KEY_LIST(LOGFMT_KEY)
#undef LOGFMT_KEY
};

static const struct log_key_text JSON_KEYS[] = {
#define JSON_KEY(name, key) [LOG_##name] = {",\"" key "\":", sizeof(",\"" key "\":") - 1},
    LOG_KEY_LIST(JSON_KEY)
#undef JSON_KEY
};

/* With all its room, of which only the key counts: a copy of one size takes no call. */
static void add_key(struct log_line *line, enum log_key key)
{
    const struct log_key_text *added = &line->keys[key];
    struct text *text = line->text;
    if (text->capacity - text->len < sizeof(added->bytes)) {
        text->truncated = true;
        return;
    }
    memcpy(text->data + text->len, added->bytes, sizeof(added->bytes));
    text->len += added->len;
}

static void add_quote(struct log_line *line)
{
    if (line->is_json) {
        text_add_char(line->text, '"');
    }
}

struct log_line log_line_begin(struct text *text, bool is_json, struct span time)
{
    struct log_line line = {text, is_json, is_json ? JSON_KEYS : LOGFMT_KEYS};
    text_add(text, is_json ? SPAN("{\"time\":\"") : SPAN("time="));
    text_add(text, time);
    add_quote(&line);
    return line;
}

void log_line_end(struct log_line *line)
{
    text_add(line->text, line->is_json ? SPAN("}\n") : SPAN("\n"));
}

void log_line_add_text(struct log_line *line, enum log_key key, struct span value)
{
    if (value.len > LOG_VALUE_BYTES_MAX) {
        value.len = LOG_VALUE_BYTES_MAX;
    }
    add_key(line, key);
    if (line->is_json) {
        text_add_json(line->text, value);
    } else {
        text_add_logfmt(line->text, value);
    }
}

void log_line_add_word(struct log_line *line, enum log_key key, struct span word)
{
    add_key(line, key);
    add_quote(line);
    text_add(line->text, word);
    add_quote(line);
}

void log_line_add_number(struct log_line *line, enum log_key key, uint64_t number)
{
    add_key(line, key);
    text_add_u64(line->text, number);
}

void log_line_add_address(struct log_line *line, enum log_key key, const struct address *address)
{
    add_key(line, key);
    add_quote(line);
    address_write(address, line->text);
    add_quote(line);
}

#include "proxy/access_line.h"

#include <string.h>

static const struct line_key_text LOGFMT_KEYS[] = {
#define LOGFMT_KEY(name, key) [LINE_##name] = {" " key "=", sizeof(" " key "=") - 1},
    LINE_KEY_LIST(LOGFMT_KEY)
#undef LOGFMT_KEY
};

static const struct line_key_text JSON_KEYS[] = {
#define JSON_KEY(name, key) [LINE_##name] = {",\"" key "\":", sizeof(",\"" key "\":") - 1},
    LINE_KEY_LIST(JSON_KEY)
#undef JSON_KEY
};

/* With all its room, of which only the key counts: a copy of one size takes no call. */
static void add_key(struct access_line *line, enum line_key key)
{
    const struct line_key_text *added = &line->keys[key];
    struct text *text = line->text;
    if (text->capacity - text->len < sizeof(added->bytes)) {
        text->truncated = true;
        return;
    }
    memcpy(text->data + text->len, added->bytes, sizeof(added->bytes));
    text->len += added->len;
}

static void add_quote(struct access_line *line)
{
    if (line->is_json) {
        text_add_char(line->text, '"');
    }
}

struct access_line access_line_begin(struct text *text, bool is_json, struct span time)
{
    struct access_line line = {text, is_json, is_json ? JSON_KEYS : LOGFMT_KEYS};
    text_add(text, is_json ? SPAN("{\"time\":\"") : SPAN("time="));
    text_add(text, time);
    add_quote(&line);
    return line;
}

void access_line_end(struct access_line *line)
{
    text_add(line->text, line->is_json ? SPAN("}\n") : SPAN("\n"));
}

void access_line_add_text(struct access_line *line, enum line_key key, struct span value)
{
    if (value.len > LINE_VALUE_BYTES_MAX) {
        value.len = LINE_VALUE_BYTES_MAX;
    }
    add_key(line, key);
    if (line->is_json) {
        text_add_json(line->text, value);
    } else {
        text_add_logfmt(line->text, value);
    }
}

void access_line_add_word(struct access_line *line, enum line_key key, struct span word)
{
    add_key(line, key);
    add_quote(line);
    text_add(line->text, word);
    add_quote(line);
}

void access_line_add_number(struct access_line *line, enum line_key key, uint64_t number)
{
    add_key(line, key);
    text_add_u64(line->text, number);
}

void access_line_add_address(struct access_line *line, enum line_key key,
                             const struct address *address)
{
    add_key(line, key);
    add_quote(line);
    address_write(address, line->text);
    add_quote(line);
}

#include "app/serve/reload.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/span.h"
#include "policy/loader.h"

enum { DEPTH_MAX = 32 };

static const char NAME[] = "name"; /* of the key that tells the items of a list apart */
static const char REDACTED[] = "${REDACTED_";
static const char ELLIPSIS[] = "\xe2\x80\xa6";

/* --- texts that are cut at the end of a character --- */

struct line {
    char *data; /* of @capacity bytes, NUL-terminated */
    size_t capacity;
    size_t len;
    bool is_cut;
};

static struct line line_of(char *data, size_t capacity)
{
    data[0] = '\0';
    return (struct line){.data = data, .capacity = capacity};
}

/* Remove what does not leave room for the ellipsis, and add it. */
static void cut(struct line *line)
{
    size_t len = line->capacity - sizeof(ELLIPSIS);
    while (len > 0 && ((uint8_t)line->data[len] & 0xc0) == 0x80) {
        len--;
    }
    memcpy(line->data + len, ELLIPSIS, sizeof(ELLIPSIS));
    line->len = len + sizeof(ELLIPSIS) - 1;
    line->is_cut = true;
}

static void add(struct line *line, const char *text)
{
    const size_t len = strlen(text);
    const size_t room = line->capacity - 1 - line->len;
    if (line->is_cut) {
        return;
    }
    memcpy(line->data + line->len, text, len < room ? len : room);
    line->len += len < room ? len : room;
    line->data[line->len] = '\0';
    if (len > room) {
        cut(line);
    }
}

/* --- values, as YAML writes them on one line --- */

static void add_value(struct line *line, const json_t *value, unsigned depth);

static void add_items(struct line *line, const json_t *list, unsigned depth)
{
    const size_t n = json_array_size(list);
    const bool has_brackets = depth > 0 && n != 1;
    add(line, has_brackets ? "[" : "");
    for (size_t i = 0; i < n && !line->is_cut; i++) {
        add(line, i > 0 ? ", " : "");
        add_value(line, json_array_get(list, i), depth + 1);
    }
    add(line, has_brackets ? "]" : "");
}

static void add_members(struct line *line, json_t *object, unsigned depth)
{
    const char *key;
    json_t *value;
    const char *separator = "";
    add(line, depth > 0 ? "{" : "");
    json_object_foreach(object, key, value)
    {
        add(line, separator);
        add(line, key);
        add(line, ": ");
        add_value(line, value, depth + 1);
        separator = ", ";
    }
    add(line, depth > 0 ? "}" : "");
}

/* Recursive; the depth is bounded. */
static void add_value(struct line *line, const json_t *value, unsigned depth)
{
    char number[32];
    if (line->is_cut) {
        return;
    }
    if (depth >= DEPTH_MAX) {
        add(line, ELLIPSIS);
        return;
    }
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        add_members(line, (json_t *)(uintptr_t)value, depth);
        return;
    case JSON_ARRAY:
        add_items(line, value, depth);
        return;
    case JSON_STRING:
        add(line, json_string_value(value));
        return;
    case JSON_INTEGER:
        snprintf(number, sizeof(number), "%lld", (long long)json_integer_value(value));
        add(line, number);
        return;
    case JSON_REAL:
        snprintf(number, sizeof(number), "%g", json_real_value(value));
        add(line, number);
        return;
    case JSON_TRUE:
    case JSON_FALSE:
        add(line, json_is_true(value) ? "true" : "false");
        return;
    case JSON_NULL:
        add(line, "null");
        return;
    }
}

/* --- the list of changes --- */

/* Where two values are in their policies. */
struct place {
    const struct place *above; /* NULL: the policy */
    const char *key;
    unsigned depth;
};

static void add_place(struct line *line, const struct place *place)
{
    if (place->above != NULL) {
        add_place(line, place->above);
        add(line, place->above->above != NULL ? "." : "");
        add(line, place->key);
    }
}

/* NULL: there is none. */
static void note(struct reload_changes *changes, enum reload_change_kind kind,
                 const struct place *place, const json_t *from, const json_t *to)
{
    if (changes->n++ >= RELOAD_CHANGES_MAX) {
        return;
    }
    struct reload_change *change = &changes->items[changes->n - 1];
    struct line key = line_of(change->key, sizeof(change->key));
    struct line before = line_of(change->from, sizeof(change->from));
    struct line after = line_of(change->to, sizeof(change->to));
    change->kind = kind;
    add_place(&key, place);
    if (from != NULL) {
        add_value(&before, from, 0);
    }
    if (to != NULL) {
        add_value(&after, to, 0);
    }
}

static void compare(struct reload_changes *changes, const struct place *above, const char *key,
                    json_t *before, json_t *after);

static void compare_objects(struct reload_changes *changes, const struct place *place,
                            json_t *before, json_t *after)
{
    const char *key;
    json_t *value;
    json_object_foreach(before, key, value)
    {
        compare(changes, place, key, value, json_object_get(after, key));
    }
    json_object_foreach(after, key, value)
    {
        if (json_object_get(before, key) == NULL) {
            compare(changes, place, key, NULL, value);
        }
    }
}

/* --- lists --- */

/* Whether @value fits a change as a whole. */
static bool is_short(const json_t *value)
{
    char text[RELOAD_CHANGE_VALUE_BYTES];
    struct line line = line_of(text, sizeof(text));
    add_value(&line, value, 0);
    return !line.is_cut;
}

static bool has_objects(const json_t *list)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (json_is_object(json_array_get(list, i))) {
            return true;
        }
    }
    return false;
}

/* The items of @list that have a name, by it. Those of the same name: the last. NULL: no memory. */
static json_t *index_names(const json_t *list)
{
    json_t *index = json_object();
    for (size_t i = 0; i < json_array_size(list); i++) {
        json_t *item = json_array_get(list, i);
        const char *name = json_string_value(json_object_get(item, NAME));
        if (name != NULL && json_object_set(index, name, item) != 0) {
            json_decref(index);
            return NULL;
        }
    }
    return index;
}

/* The position of each item that has no name. NULL: no memory. */
static json_t *index_nameless(const json_t *list)
{
    json_t *positions = json_array();
    for (size_t i = 0; i < json_array_size(list); i++) {
        if (json_object_get(json_array_get(list, i), NAME) == NULL &&
            json_array_append_new(positions, json_integer((json_int_t)i)) != 0) {
            json_decref(positions);
            return NULL;
        }
    }
    return positions;
}

static json_t *item_at(const json_t *list, const json_t *positions, size_t i)
{
    return json_array_get(list, (size_t)json_integer_value(json_array_get(positions, i)));
}

/* Compare items without a name: those between what the lists begin and end with alike, one by one.
 * The key of an item is its position, from 1: among those of the list before, or if there is none,
 * of the list after. */
static void compare_nameless(struct reload_changes *changes, const struct place *place,
                             const json_t *before, const json_t *after)
{
    json_t *olds = index_nameless(before);
    json_t *news = index_nameless(after);
    size_t n_old = json_array_size(olds);
    size_t n_new = json_array_size(news);
    size_t start = 0;
    while (start < n_old && start < n_new &&
           json_equal(item_at(before, olds, start), item_at(after, news, start))) {
        start++;
    }
    while (n_old > start && n_new > start &&
           json_equal(item_at(before, olds, n_old - 1), item_at(after, news, n_new - 1))) {
        n_old--;
        n_new--;
    }
    for (size_t i = start; i < n_old || i < n_new; i++) {
        char key[32];
        const json_t *positions = i < n_old ? olds : news;
        snprintf(key, sizeof(key), "%lld",
                 (long long)json_integer_value(json_array_get(positions, i)) + 1);
        compare(changes, place, key, i < n_old ? item_at(before, olds, i) : NULL,
                i < n_new ? item_at(after, news, i) : NULL);
    }
    json_decref(olds);
    json_decref(news);
}

/* The next key of @index at @iterator and after it that @other has too; NULL: there is none. */
static void *next_common(json_t *index, const json_t *other, void *iterator)
{
    while (iterator != NULL && json_object_get(other, json_object_iter_key(iterator)) == NULL) {
        iterator = json_object_iter_next(index, iterator);
    }
    return iterator;
}

/* Whether the keys that both have are in another order. */
static bool is_reordered(json_t *before, json_t *after)
{
    void *old = next_common(before, after, json_object_iter(before));
    void *new = next_common(after, before, json_object_iter(after));
    while (old != NULL && new != NULL) {
        if (strcmp(json_object_iter_key(old), json_object_iter_key(new)) != 0) {
            return true;
        }
        old = next_common(before, after, json_object_iter_next(before, old));
        new = next_common(after, before, json_object_iter_next(after, new));
    }
    return false;
}

static void compare_lists_of_objects(struct reload_changes *changes, const struct place *place,
                                     const json_t *before, const json_t *after)
{
    json_t *olds = index_names(before);
    json_t *news = index_names(after);
    compare_objects(changes, place, olds, news);
    if (is_reordered(olds, news)) {
        note(changes, RELOAD_REORDERED, place, NULL, NULL);
    }
    json_decref(olds);
    json_decref(news);
    compare_nameless(changes, place, before, after);
}

/* The texts of a list's items, as the keys of an object. NULL: no memory. */
static json_t *index_texts(const json_t *list)
{
    json_t *index = json_object();
    for (size_t i = 0; i < json_array_size(list); i++) {
        char *text = json_dumps(json_array_get(list, i), JSON_ENCODE_ANY | JSON_COMPACT);
        const bool is_set =
            text != NULL && json_object_set(index, text, json_array_get(list, i)) == 0;
        free(text);
        if (!is_set) {
            json_decref(index);
            return NULL;
        }
    }
    return index;
}

/* A list that is too long to be shown: its items that came and went. */
static void compare_long_lists(struct reload_changes *changes, const struct place *place,
                               const json_t *before, const json_t *after)
{
    const size_t n_before = changes->n;
    json_t *olds = index_texts(before);
    json_t *news = index_texts(after);
    const char *key;
    json_t *value;
    json_object_foreach(olds, key, value)
    {
        if (json_object_get(news, key) == NULL) {
            note(changes, RELOAD_REMOVED, place, value, NULL);
        }
    }
    json_object_foreach(news, key, value)
    {
        if (json_object_get(olds, key) == NULL) {
            note(changes, RELOAD_ADDED, place, NULL, value);
        }
    }
    if (changes->n == n_before) {
        note(changes, RELOAD_REORDERED, place, NULL, NULL);
    }
    json_decref(olds);
    json_decref(news);
}

/* --- any value --- */

/* Recursive; the depth is bounded. NULL: the policy has no such key. */
static void compare(struct reload_changes *changes, const struct place *above, const char *key,
                    json_t *before, json_t *after)
{
    const struct place place = {
        .above = above, .key = key, .depth = above != NULL ? above->depth + 1 : 0};
    if (before == NULL || after == NULL) {
        /* A section of named items that comes or goes is each of its items. */
        if (place.depth == 1 && json_is_object(before != NULL ? before : after)) {
            json_t *none = json_object();
            compare_objects(changes, &place, before != NULL ? before : none,
                            after != NULL ? after : none);
            json_decref(none);
        } else {
            note(changes, before == NULL ? RELOAD_ADDED : RELOAD_REMOVED, &place, before, after);
        }
        return;
    }
    if (json_equal(before, after)) {
        return;
    }
    if (json_is_object(before) && json_is_object(after) && place.depth < DEPTH_MAX) {
        compare_objects(changes, &place, before, after);
    } else if (json_is_array(before) && json_is_array(after) && place.depth < DEPTH_MAX) {
        if (has_objects(before) && has_objects(after)) {
            compare_lists_of_objects(changes, &place, before, after);
        } else if (is_short(before) && is_short(after)) {
            note(changes, RELOAD_CHANGED, &place, before, after);
        } else {
            compare_long_lists(changes, &place, before, after);
        }
    } else {
        note(changes, RELOAD_CHANGED, &place, before, after);
    }
}

/* --- secrets --- */

/* Remove the number of each secret in @value: it depends on how many are before it. */
static void unnumber_string(json_t *value)
{
    char *text = strdup(json_string_value(value));
    if (text == NULL) {
        return;
    }
    for (char *at = strstr(text, REDACTED); at != NULL; at = strstr(at + 1, REDACTED)) {
        char *number = at + sizeof(REDACTED) - 2; /* with the underscore */
        char *end = number + 1;
        while (*end >= '0' && *end <= '9') {
            end++;
        }
        memmove(number, end, strlen(end) + 1);
    }
    (void)!json_string_set(value, text);
    free(text);
}

/* Recursive; a policy bounds the depth. */
static void unnumber_secrets(json_t *value)
{
    const char *key;
    json_t *member;
    json_object_foreach(value, key, member)
    {
        unnumber_secrets(member);
    }
    for (size_t i = 0; i < json_array_size(value); i++) {
        unnumber_secrets(json_array_get(value, i));
    }
    if (json_is_string(value) && strstr(json_string_value(value), REDACTED) != NULL) {
        unnumber_string(value);
    }
}

void policy_changes_compare(json_t *before, json_t *after, struct reload_changes *changes)
{
    changes->n = 0;
    unnumber_secrets(before);
    unnumber_secrets(after);
    compare(changes, NULL, "", before, after);
}

enum status policy_changes_find(const struct policy *before, const struct policy *after,
                                struct reload_changes *changes)
{
    json_t *old = description_of_policy(before, false);
    json_t *new = description_of_policy(after, false);
    const bool is_known = old != NULL && new != NULL;
    changes->n = 0;
    if (is_known) {
        policy_changes_compare(old, new, changes);
    }
    json_decref(old);
    json_decref(new);
    return is_known ? STATUS_OK : STATUS_NO_MEMORY;
}

/* Happy path: the file is read ─► each path that it includes, relative to its folder: a glob gives
 * files in the order of their names ─► each of them likewise ─► the trees are merged.
 *
 * Failures: a file that is missing, or no regular file, or read already; too many files, too deep,
 * too large. Each is an error at the path that names the file, and the others are read all the
 * same, so that all errors are reported in one run. */

#include "policy/load/include.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "policy/files.h"
#include "policy/load/node.h"

static const struct span INCLUDE = {"include", 7};
static const char *const MERGED[] = {"upstreams", "limits", "routes"};

/* A file that is being read, and the one that includes it. */
struct place {
    const struct place *parent; /* NULL: the policy's own file */
    const char *path;           /* NULL: no file */
    struct stat file;
    size_t depth;
};

struct includer {
    const struct loader_source *source; /* of the policy's own file */
    struct loader_room room;
    environment_lookup lookup;
    struct arena *arena;
    struct diags *diags;
    struct loader_files *named;
    struct include_files *files;
    struct stat read[POLICY_INCLUDES_MAX]; /* the files that were included */
    size_t n_read;
    size_t n_bytes; /* of all files */
    bool is_broken; /* some file has no tree */
};

/* --- one file --- */

/* The path or pattern that includes it. */
struct item {
    struct includer *includer;
    const struct place *place; /* that includes it */
    const struct node *node;
    enum status status;
};

static enum status read_tree(struct includer *includer, const struct loader_source *source,
                             const struct place *place);

/* Report that the file at @path cannot be read, because of errno. */
static void refuse_unreadable(const struct item *item, const char *path)
{
    item->includer->is_broken = true;
    node_report(item->includer->diags, item->node, "include", ": %s cannot be read: %s", path,
                strerror(errno));
}

/* Report what is wrong with the file at @path. */
static void refuse(const struct item *item, const char *path, const char *problem)
{
    item->includer->is_broken = true;
    node_report(item->includer->diags, item->node, "include", ": %s %s", path, problem);
}

static bool is_same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Whether the file may be read. False: reported. */
static bool may_read(const struct item *item, const char *path, const struct stat *file)
{
    const struct includer *includer = item->includer;
    for (const struct place *place = item->place; place != NULL; place = place->parent) {
        if (is_same_file(&place->file, file)) {
            refuse(item, path, "includes itself, by way of this line");
            return false;
        }
    }
    for (size_t i = 0; i < includer->n_read; i++) {
        if (is_same_file(&includer->read[i], file)) {
            refuse(item, path, "is included twice");
            return false;
        }
    }
    if (includer->n_read == POLICY_INCLUDES_MAX) {
        refuse(item, path, "is one file too many: a policy includes at most 256");
    } else if (item->place->depth == POLICY_INCLUDE_DEPTH_MAX) {
        refuse(item, path, "is too deep: files include files at most 8 deep");
    } else {
        return true;
    }
    return false;
}

/* Open a regular file, without waiting for anything else. NULL: errno says why; EINVAL: it is not
 * one. */
static FILE *open_regular(const char *path, struct stat *file)
{
    if (stat(path, file) != 0) {
        return NULL;
    }
    errno = EINVAL;
    if (!S_ISREG(file->st_mode)) {
        return NULL;
    }
    const int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    errno = fd >= 0 ? EINVAL : errno;
    if (fd < 0 || fstat(fd, file) != 0 || !S_ISREG(file->st_mode)) {
        if (fd >= 0) {
            close(fd);
        }
        return NULL;
    }
    FILE *opened = fdopen(fd, "rb");
    if (opened == NULL) {
        close(fd);
    }
    return opened;
}

/* Read the contents into the arena. Other than STATUS_OK: reported, but for STATUS_NO_MEMORY. */
static enum status read_contents(const struct item *item, const char *path, FILE *file,
                                 struct span *text)
{
    struct includer *includer = item->includer;
    char *bytes;
    size_t len;
    enum status status = loader_yaml_read_all(file, &bytes, &len);
    if (status == STATUS_IO) {
        refuse_unreadable(item, path);
    } else if (status == STATUS_OK && includer->n_bytes + len > POLICY_FILE_BYTES_MAX) {
        refuse(item, path, "is too large: the files of a policy have at most 16 MiB together");
        status = STATUS_INVALID;
    } else if (status == STATUS_OK) {
        includer->n_bytes += len;
        *text = arena_copy(includer->arena, span_of(bytes, len));
        status = text->data != NULL ? STATUS_OK : STATUS_NO_MEMORY;
    }
    free(bytes);
    return status;
}

static enum status read_file(const struct item *item, const char *path, FILE *file,
                             const struct stat *identity)
{
    struct includer *includer = item->includer;
    struct loader_source source = *includer->source;
    const struct place place = {item->place, path, *identity, item->place->depth + 1};
    const uint16_t before = includer->diags->current;
    includer->read[includer->n_read++] = *identity;
    enum status status = read_contents(item, path, file, &source.yaml);
    if (status != STATUS_OK) {
        return status;
    }
    if (!diags_begin_file(includer->diags, path)) {
        return STATUS_NO_MEMORY;
    }
    source.noun = "an included file";
    status = read_tree(includer, &source, &place);
    includer->diags->current = before;
    return status;
}

/* False: no memory. */
static bool include_path(void *context, const char *path)
{
    struct item *item = context;
    struct stat identity;
    files_add_version(&item->includer->named->read.includes, path);
    FILE *file = open_regular(path, &identity);
    if (file == NULL) {
        if (errno == EINVAL) {
            refuse(item, path, "is no regular file");
        } else {
            refuse_unreadable(item, path);
        }
        return true;
    }
    if (may_read(item, path, &identity)) {
        item->status = read_file(item, path, file, &identity);
    }
    fclose(file);
    return item->status != STATUS_NO_MEMORY;
}

/* --- the paths of a file --- */

/* @written, relative to the folder of @place. False: it is too long, or has a byte of zero. */
static bool join(const struct place *place, struct span written, char path[PATH_MAX])
{
    const char *slash = written.data[0] == '/' ? NULL : strrchr(place->path, '/');
    const size_t folder = slash != NULL ? (size_t)(slash - place->path) + 1 : 0;
    if (folder + written.len >= PATH_MAX || span_find(written, '\0') < written.len) {
        return false;
    }
    memcpy(path, place->path, folder);
    memcpy(path + folder, written.data, written.len);
    path[folder + written.len] = '\0';
    return true;
}

static enum status include_item(struct includer *includer, const struct place *place,
                                const struct node *node)
{
    char path[PATH_MAX];
    struct item item = {includer, place, node, STATUS_OK};
    const char *problem = NULL;
    if (node->kind != NODE_SCALAR || node_is_null(node) || node->written.len == 0) {
        problem = "must be a path or a pattern of files, or a list of such";
    } else if (span_find(node->written, '$') < node->written.len) {
        problem = "takes no variables of the environment";
    } else if (place->path == NULL) {
        problem = "needs a policy that is read from a file";
    } else if (!join(place, node->written, path)) {
        problem = "has a path that is too long or has a byte of zero";
    } else if (includer->named->n_includes == POLICY_INCLUDES_MAX) {
        problem = "has more than 256 paths, those of included files counted";
    }
    if (problem != NULL) {
        includer->is_broken = true;
        node_error(includer->diags, node, "include %s", problem);
        return STATUS_OK;
    }
    if (!files_keep(&includer->named->includes, &includer->named->n_includes, path) ||
        !files_each_path(path, include_path, &item)) {
        return STATUS_NO_MEMORY;
    }
    return STATUS_OK;
}

/* Whether @key may stand in an included file. */
static bool is_merged(struct span key)
{
    bool found = span_equals(key, INCLUDE);
    for (size_t i = 0; i < ARRAY_LEN(MERGED); i++) {
        found = found || span_equals(key, span_of_text(MERGED[i]));
    }
    return found;
}

/* Report keys that do not stand in an included file. */
static void check_keys(struct includer *includer, const struct node *root)
{
    for (size_t i = 0; i < root->n_items; i += 2) {
        const struct node *key = &root->items[i];
        if (!is_merged(key->text)) {
            node_error(includer->diags, key,
                       "\"%.*s\" does not stand in an included file; there are include, limits, "
                       "routes and upstreams",
                       SPAN_ARGS(quote_clip(key->text)));
        }
    }
}

/* Read @source and what it includes. Recursive, at most POLICY_INCLUDE_DEPTH_MAX deep. */
static enum status read_tree(struct includer *includer, const struct loader_source *source,
                             const struct place *place)
{
    struct node *root = NULL;
    enum status status =
        loader_yaml_read(source, includer->lookup, includer->arena, includer->diags, &root);
    if (status != STATUS_OK) {
        includer->is_broken = true;
        return status == STATUS_INVALID && place->parent != NULL ? STATUS_OK : status;
    }
    if (place->parent != NULL) {
        check_keys(includer, root);
    }
    const struct node *include = node_find(root, INCLUDE);
    const bool is_list = include != NULL && include->kind == NODE_LIST;
    const struct node *items = is_list ? include->items : include;
    const size_t n_items = include == NULL ? 0 : is_list ? include->n_items : 1;
    for (size_t i = 0; i < n_items && status == STATUS_OK; i++) {
        status = include_item(includer, place, &items[i]);
    }
    includer->files->texts[includer->files->n] = source->yaml;
    includer->files->roots[includer->files->n++] = root;
    return status;
}

bool include_is_part(const struct include_files *files)
{
    const struct node *root = files->roots[files->n - 1];
    for (size_t i = 0; i < root->n_items; i += 2) {
        if (!is_merged(root->items[i].text)) {
            return false;
        }
    }
    return root->n_items > 0;
}

enum status include_read(const struct loader_source *source, const char *path,
                         environment_lookup lookup, struct arena *arena, struct diags *diags,
                         struct loader_files *named, struct include_files *files)
{
    struct loader_files unused = {0};
    struct loader_source own = *source;
    struct includer *includer = calloc(1, sizeof(*includer));
    struct place place = {.path = path};
    if (includer == NULL) {
        return STATUS_NO_MEMORY;
    }
    includer->source = &own;
    includer->lookup = lookup;
    includer->arena = arena;
    includer->diags = diags;
    includer->named = named != NULL ? named : &unused;
    includer->files = files;
    includer->n_bytes = source->yaml.len;
    own.room = &includer->room;
    files->n = 0;
    if (path != NULL) {
        (void)stat(path, &place.file);
    }
    enum status status = read_tree(includer, &own, &place);
    if (status == STATUS_OK && includer->is_broken) {
        status = STATUS_INVALID;
    }
    loader_files_free(&unused);
    free(includer);
    return status;
}

/* --- merging --- */

/* Append the value of @key in @root to *merged, a key and its value. */
static void append(struct node merged[2], const struct node *root, const char *key)
{
    const struct node *value = node_find(root, span_of_text(key));
    if (value == NULL) {
        return;
    }
    struct node *items = merged[1].items;
    const size_t n_items = merged[1].n_items;
    if (value->n_items > 0) {
        memcpy(items + n_items, value->items, value->n_items * sizeof(*items));
    }
    merged[0] = value[-1];
    merged[1] = *value;
    merged[1].items = items;
    merged[1].n_items = n_items + value->n_items;
}

/* The number of items of @key in all files. False: some file has a value of another kind. */
static bool count_items(const struct include_files *files, const char *key, enum node_kind kind,
                        struct diags *diags, size_t *n_items)
{
    bool is_good = true;
    *n_items = 0;
    for (size_t i = 0; i < files->n; i++) {
        const struct node *value = node_find(files->roots[i], span_of_text(key));
        if (value != NULL && value->kind != kind) {
            node_error(diags, value, "%s must be %s, not %s", key,
                       kind == NODE_LIST ? "a list" : "a mapping of names", node_noun(value));
            is_good = false;
        }
        *n_items += value != NULL ? value->n_items : 0;
    }
    return is_good;
}

static void check_bound(const struct loader_bound *bounds, const struct node merged[2],
                        struct diags *diags)
{
    const size_t n = merged[1].kind == NODE_MAPPING ? merged[1].n_items / 2 : merged[1].n_items;
    for (; bounds != NULL && bounds->key != NULL; bounds++) {
        if (span_equals(merged[0].text, span_of_text(bounds->key)) && n > bounds->n_max) {
            node_error(diags, &merged[0], "more than %zu %s in all files", bounds->n_max,
                       bounds->key);
        }
    }
}

/* Merge the values of @key into *merged, a key and its value; without them it is untouched. */
static enum status merge_key(const struct include_files *files, const char *key,
                             const struct loader_bound *bounds, struct arena *arena,
                             struct diags *diags, struct node merged[2])
{
    const enum node_kind kind = strcmp(key, "routes") == 0 ? NODE_LIST : NODE_MAPPING;
    size_t n_items;
    if (!count_items(files, key, kind, diags, &n_items)) {
        return STATUS_INVALID;
    }
    merged[1].items = arena_calloc(arena, n_items + 1, sizeof(*merged));
    if (merged[1].items == NULL) {
        return STATUS_NO_MEMORY;
    }
    for (size_t i = 0; i < files->n; i++) {
        append(merged, files->roots[i], key);
    }
    check_bound(bounds, merged, diags);
    return kind == NODE_MAPPING && n_items > 0
               ? node_report_duplicates(&merged[1], true, arena, diags)
               : STATUS_OK;
}

enum status include_merge(const struct include_files *files, const struct loader_bound *bounds,
                          struct arena *arena, struct diags *diags, struct node **root)
{
    struct node *own = files->roots[files->n - 1];
    *root = own;
    if (node_find(own, INCLUDE) == NULL) {
        return STATUS_OK;
    }
    struct node *items = arena_calloc(arena, own->n_items + 2 * ARRAY_LEN(MERGED), sizeof(*items));
    if (items == NULL) {
        return STATUS_NO_MEMORY;
    }
    size_t n_items = 0;
    for (size_t i = 0; i < own->n_items; i += 2) {
        if (!is_merged(own->items[i].text)) {
            memcpy(&items[n_items], &own->items[i], 2 * sizeof(*items));
            n_items += 2;
        }
    }
    for (size_t i = 0; i < ARRAY_LEN(MERGED); i++) {
        struct node *merged = &items[n_items];
        const enum status status = merge_key(files, MERGED[i], bounds, arena, diags, merged);
        if (status != STATUS_OK) {
            return status;
        }
        n_items += merged[0].text.data != NULL ? 2 : 0;
    }
    own->items = items;
    own->n_items = n_items;
    return STATUS_OK;
}
